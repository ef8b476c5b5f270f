"""Buckets of documents of similar length."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spacy_bilstm_crf.batching import cells_of_rows, make_buckets

LENGTHS = st.lists(st.integers(0, 12), max_size=20)


def make_ragged(lengths):
    """One row per token, all different."""
    return torch.arange(sum(lengths)).split(lengths) if lengths else ()


@given(LENGTHS, st.sampled_from([0.0, 0.15, 0.35, 1.0]))
def test_every_document_with_tokens_is_in_one_bucket(lengths, max_padding):
    buckets = make_buckets(torch.tensor(lengths, dtype=torch.int64), max_padding=max_padding)
    found = sorted(doc for bucket in buckets for doc in bucket.docs.tolist())
    assert found == [i for i, length in enumerate(lengths) if length]


@given(LENGTHS, st.sampled_from([0.0, 0.15, 0.35]))
def test_padding_stays_below_its_share(lengths, max_padding):
    for bucket in make_buckets(torch.tensor(lengths, dtype=torch.int64), max_padding=max_padding):
        n_padding = bucket.rows.numel() - int(bucket.lengths.sum())
        # The number of steps is rounded up, by an eighth at most.
        n_cells = int(bucket.lengths.max()) * len(bucket.docs)
        assert n_cells - int(bucket.lengths.sum()) <= max_padding * n_cells
        assert n_padding <= max_padding * n_cells + bucket.rows.numel() / 8


@given(LENGTHS)
def test_rows_hold_each_document_forwards_and_backwards(lengths):
    docs = make_ragged(lengths)
    for bucket in make_buckets(torch.tensor(lengths, dtype=torch.int64)):
        for column, doc in enumerate(bucket.docs.tolist()):
            n_tokens = lengths[doc]
            assert bucket.lengths[column] == n_tokens
            assert bucket.rows[:n_tokens, column].tolist() == docs[doc].tolist()
            assert bucket.reversed_rows[:n_tokens, column].tolist() == docs[doc].flip(0).tolist()
            # Padding is a row of the document itself, so it can be read without care.
            assert set(bucket.rows[n_tokens:, column].tolist()) <= {docs[doc][-1].item()}


@given(LENGTHS, st.booleans())
def test_cells_put_a_batch_together_again(lengths, backwards):
    buckets = make_buckets(torch.tensor(lengths, dtype=torch.int64))
    if not buckets:
        return
    cells = torch.cat([(b.reversed_rows if backwards else b.rows).flatten() for b in buckets])
    n_rows = sum(lengths)
    assert cells[cells_of_rows(buckets, n_rows, backwards=backwards)].tolist() == list(range(n_rows))


@given(LENGTHS)
def test_offsets_leave_gaps(lengths):
    lengths = torch.tensor(lengths, dtype=torch.int64)
    offsets = 100 * torch.arange(len(lengths))
    for bucket in make_buckets(lengths, offsets=offsets):
        assert bucket.rows[0].tolist() == (100 * bucket.docs).tolist()


@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 0]])
def test_nothing_gives_no_bucket(lengths):
    assert make_buckets(torch.tensor(lengths, dtype=torch.int64)) == []


def test_documents_of_one_length_share_a_bucket():
    (bucket,) = make_buckets(torch.full((48,), 7))
    assert bucket.rows.shape == (7, 48)


def test_buckets_have_few_shapes():
    # A library that compiles for each shape would otherwise fill the memory of a process that lives long.
    rng = torch.Generator().manual_seed(0)
    batches = [torch.randint(1, 40, (100 + i,), generator=rng) for i in range(100)]
    shapes = {tuple(bucket.rows.shape) for lengths in batches for bucket in make_buckets(lengths)}
    assert len(shapes) <= 150
    assert all(n_docs in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128) for _, n_docs in shapes)
