"""How files are cut."""

import io

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from outputs import write_lines
from spacy.tokens import Doc, DocBin

from spacy_bilstm_crf.annotate import slices
from spacy_bilstm_crf.annotate.job import InputFile, Job, Slice
from spacy_bilstm_crf.annotate.slices import cut_file, cut_lines

LINES = st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"-")), max_size=30)


def source_of(path, kind, index=0):
    return InputFile(index, str(path), kind, path.stat().st_size)


@given(LINES, st.booleans(), st.integers(1, 9), st.integers(1, 60), st.integers(1, 40))
def test_runs_of_lines_are_whole_and_complete(lines, ends_with_newline, max_lines, max_bytes, chunk):
    content = b"\n".join(lines) + (b"\n" if ends_with_newline and lines else b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "_CHUNK", chunk)
        runs = list(cut_lines(io.BytesIO(content), max_lines, max_bytes))
    expected = content.splitlines(keepends=True) if not set(content) & set(b"\r\x0b\x0c") else None
    assert b"".join(content[start:stop] for start, stop, _ in runs) == content
    assert [start for start, _, _ in runs] == [0, *(stop for _, stop, _ in runs)][: len(runs)]
    for start, stop, n_lines in runs:
        part = content[start:stop]
        assert n_lines == part.count(b"\n") + (not part.endswith(b"\n")) <= max_lines
        assert part.endswith(b"\n") or stop == len(content)
        assert part[:-1].rfind(b"\n") + 1 < max_bytes, "it should have ended a line earlier"
        assert n_lines == max_lines or len(part) >= max_bytes or stop == len(content)
    if expected is not None:
        assert sum(n_lines for _, _, n_lines in runs) == len(expected)


def test_slices_of_text_number_lines_and_bytes(tmp_path):
    path = tmp_path / "a.txt"
    write_lines(path, ["one", "two", "", "four", "fünf"])
    found = list(cut_file(source_of(path, "text", index=7), Job("m", "o", shard_size=2)))
    assert [(part.name, part.start, part.stop, part.first_row, part.n_rows) for part in found] == [
        ("part-00007-00000", 0, 8, 1, 2),
        ("part-00007-00001", 8, 14, 3, 2),
        ("part-00007-00002", 14, 20, 5, 1),
    ]
    assert sum(part.n_bytes for part in found) == path.stat().st_size
    assert found[1].place(3) == f"{path}:3"


def test_names_sort_in_the_order_of_the_input():
    names = [Slice(file, number, "", "text").name for file in (0, 1, 20, 300) for number in (0, 9, 10, 99999)]
    assert names == sorted(names)
    assert Slice.read_name("part-00012-00345") == (12, 345)


def test_places_do_not_say_how_to_reach_a_store():
    assert Slice(0, 0, "s3://bucket/a.txt?region=eu&scheme=http", "text").place(3) == "s3://bucket/a.txt:3"
    assert Slice(0, 0, "what?.txt", "text").place(3) == "what?.txt:3"


@pytest.mark.parametrize("kind", ["text", "jsonl", "spacy"])
def test_empty_files_have_no_slices(tmp_path, kind):
    (tmp_path / "empty").touch()
    assert list(cut_file(source_of(tmp_path / "empty", kind), Job("m", "o"))) == []


def test_slices_of_docs(tmp_path):
    nlp = spacy.blank("en")
    path = tmp_path / "a.spacy"
    DocBin(docs=[Doc(nlp.vocab, words=["a"] * i) for i in range(5)]).to_disk(path)
    found = list(cut_file(source_of(path, "spacy"), Job("m", "o", shard_size=2)))
    assert [(part.start, part.stop, part.first_row) for part in found] == [(0, 2, 1), (2, 4, 3), (4, 5, 5)]
    assert sum(part.n_bytes for part in found) == path.stat().st_size
    # 10 tokens in 5 Docs count as 80 bytes
    assert [part.n_rows for part in cut_file(source_of(path, "spacy"), Job("m", "o", shard_bytes=50))] == [3, 2]


def test_slices_of_rows(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pa.table({"text": ["x"] * 10}), path, row_group_size=4)
    found = list(cut_file(source_of(path, "parquet"), Job("m", "o", shard_size=3)))
    assert [(part.start, part.stop) for part in found] == [(0, 3), (3, 6), (6, 9), (9, 10)]
    assert sum(part.n_bytes for part in found) == path.stat().st_size
    pyarrow.parquet.write_table(pa.table({"text": ["x" * 1000 + str(i) for i in range(10)]}), path)
    assert len(list(cut_file(source_of(path, "parquet"), Job("m", "o", shard_bytes=3000)))) > 3


@pytest.mark.parametrize("kind", ["parquet", "spacy"])
def test_a_damaged_file_becomes_a_slice_that_says_so(tmp_path, kind):
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    (tmp_path / "bad").write_bytes(b"nothing of this kind")
    (part,) = cut_file(source_of(tmp_path / "bad", kind), Job("m", "o"))
    assert "CRF431" in part.damage
    assert part.n_rows == 0
    assert part.n_bytes == 20


def test_a_file_that_goes_away_becomes_a_slice_that_says_so(tmp_path):
    (part,) = cut_file(InputFile(0, str(tmp_path / "gone.txt"), "text", 9), Job("m", "o"))
    assert "CRF431" in part.damage
    assert "gone.txt" in part.damage
