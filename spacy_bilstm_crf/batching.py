"""Padded batches of documents of similar length.

A recursion over time costs one step for each token of the longest document of its batch. Documents are therefore sorted
by length and cut into buckets whose padding stays below a given share; nothing computed for a document depends on the
bucket it falls in.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Bucket(NamedTuple):
    """Documents of similar length and where their tokens lie, for padded batches in time-major order.

    docs (Tensor): Positions of the documents in the batch.
        (n_docs,) int64
    lengths (Tensor): Their lengths in tokens.
        (n_docs,) int64
    rows (Tensor): Which row of the ragged batch stands at each time step; padding repeats a document's last token.
        (n_steps, n_docs) int64
    reversed_rows (Tensor): The same with every document read from its last token to its first.
        (n_steps, n_docs) int64
    """

    docs: Tensor
    lengths: Tensor
    rows: Tensor
    reversed_rows: Tensor


def make_buckets(
    lengths: Tensor, *, max_padding: float = 0.15, offsets: Tensor | None = None, step_bits: int = 4
) -> list[Bucket]:
    """Sort documents by length and cut them into buckets with little padding.

    lengths (Tensor): Number of tokens of each document. Documents without tokens are in no bucket.
        (n_docs,) int64, on the CPU
    max_padding (float): Largest share of a bucket's cells that may be padding, before its number of steps is rounded
        up.
    offsets (Tensor | None): First row of each document; None if the documents follow one another.
        (n_docs,) int64
    step_bits (int): Leading bits that a number of steps may have set: it is rounded up by an eighth at most for 4.
    RETURNS (list[Bucket]): The buckets, shortest documents first. Their tensors are on the CPU.
    """
    sizes = lengths.tolist()
    order = sorted((i for i, size in enumerate(sizes) if size), key=sizes.__getitem__)
    if offsets is None:
        offsets = torch.cumsum(lengths, 0) - lengths
    buckets = []
    start, n_filled = 0, 0
    for i, doc in enumerate(order):
        while (n_cells := sizes[doc] * (i + 1 - start)) - n_filled - sizes[doc] > max_padding * n_cells:
            end = start + _round(i - start, n_bits=2)
            buckets.append(_make_bucket(torch.tensor(order[start:end]), lengths, offsets, step_bits))
            # What rounding left over is nearly as long as what comes next.
            start, n_filled = end, sum(sizes[other] for other in order[end:i])
        n_filled += sizes[doc]
    while start < len(order):
        end = start + _round(len(order) - start, n_bits=2)
        buckets.append(_make_bucket(torch.tensor(order[start:end]), lengths, offsets, step_bits))
        start = end
    return buckets


def _round(size: int, *, n_bits: int, up: bool = False) -> int:
    # oneDNN keeps a compiled LSTM for each shape that it meets. If only leading bits are set, there are few.
    unit = 1 << max(0, size.bit_length() - n_bits)
    return (size + (unit - 1) * up) // unit * unit


def _make_bucket(docs: Tensor, lengths: Tensor, offsets: Tensor, step_bits: int) -> Bucket:
    if len(docs) == 1:
        return _make_lone_bucket(docs, int(lengths[docs]), int(offsets[docs]))
    sizes = lengths[docs]
    steps = torch.arange(_round(int(sizes.max()), n_bits=step_bits, up=True)).unsqueeze(1)
    steps = torch.minimum(steps, sizes - 1)  # (n_steps, n_docs)
    first = offsets[docs]
    return Bucket(docs, sizes, first + steps, first + sizes - 1 - steps)


def _make_lone_bucket(doc: Tensor, size: int, first: int) -> Bucket:
    rows = torch.arange(first, first + size).unsqueeze(1)
    return Bucket(doc, torch.tensor([size]), rows, rows.flip(0))


def cells_of_rows(buckets: list[Bucket], n_rows: int, *, backwards: bool = False) -> Tensor:
    """Find where each row of the ragged batch lies among the buckets' cells, laid end to end.

    buckets (list[Bucket]): The buckets of the whole batch.
    n_rows (int): Number of tokens in the batch.
    backwards (bool): Look in `reversed_rows` instead of `rows`.
    RETURNS (Tensor): Index into the concatenation of the buckets' flattened cells.
        (n_rows,) int64
    """
    if len(buckets) == 1 and len(buckets[0].docs) == 1:  # one document: all rows, in order or reversed
        return (buckets[0].reversed_rows if backwards else buckets[0].rows).squeeze(1)
    cells = torch.empty(n_rows, dtype=torch.int64)
    n_before = 0
    for bucket in buckets:
        rows = bucket.reversed_rows if backwards else bucket.rows
        is_token = torch.arange(len(rows)).unsqueeze(1) < bucket.lengths  # (n_steps, n_docs)
        cells[rows[is_token]] = n_before + is_token.flatten().nonzero().squeeze(1)
        n_before += rows.numel()
    return cells
