"""From slices to records."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from outputs import write_jsonl

from spacy_bilstm_crf.annotate import reading
from spacy_bilstm_crf.annotate.job import InputFile, Job
from spacy_bilstm_crf.annotate.reading import Failure, Record, describe_error, read_lines, read_slice
from spacy_bilstm_crf.annotate.slices import cut_file


def read(path, *, max_length=1000, **options):
    """All records of a file, through its slices."""
    kind = {".txt": "text"}.get(path.suffix, path.suffix[1:])
    job = Job("m", "o", **options)
    parts = cut_file(InputFile(0, str(path), kind, path.stat().st_size), job)
    return [item for part in parts for item in read_slice(part, job, max_length)]


def texts(items):
    return [item.text if isinstance(item, Record) else None for item in items]


def codes(items):
    return [item.reason[1:7] if isinstance(item, Failure) else None for item in items]


@given(st.lists(st.binary(max_size=9), max_size=20), st.integers(1, 12), st.integers(1, 8))
def test_lines_are_those_of_split(pieces, chunk, max_bytes):
    content = b"\n".join(pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "_CHUNK", chunk)
        lines = list(read_lines(io.BytesIO(content), len(content), max_bytes))
    expected = content.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert lines == [line.removesuffix(b"\r") if len(line) <= max_bytes else len(line) for line in expected]


@given(st.lists(st.binary(min_size=1, max_size=9), max_size=9), st.integers(0, 90))
def test_reading_ends_where_the_slice_does(pieces, n_bytes):
    content = b"\n".join(pieces)
    lines = list(read_lines(io.BytesIO(content), n_bytes, 100))
    assert lines == list(read_lines(io.BytesIO(content[:n_bytes]), len(content), 100))


@pytest.mark.parametrize("shard_size", [1, 2, 100])
def test_text_a_document_a_line(write, shard_size):
    path = write("one\r\n\n drei \nvier", "a.txt")
    items = read(path, shard_size=shard_size)
    assert texts(items) == ["one", "", " drei ", "vier"]
    assert [item.id for item in items] == [f"{path}:{i}" for i in (1, 2, 3, 4)]


def test_other_line_ends_of_unicode_are_text(write):
    assert texts(read(write("a\u2028b\x0bc\u0085d\n", "a.txt"))) == ["a\u2028b\x0bc\u0085d"]


def test_a_byte_order_mark_is_no_text(write):
    assert texts(read(write(b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n", "a.txt"), shard_size=1)) == ["one", "\ufefftwo"]


def test_bytes_that_are_not_utf8_cost_their_line_only(write):
    items = read(write(b"one\ncaf\xe9\nthree\n", "a.txt"))
    assert texts(items) == ["one", None, "three"]
    assert codes(items) == [None, "CRF429", None]
    assert items[1].id.endswith("a.txt:2")


def test_a_line_that_is_too_long_is_not_kept(write):
    items = read(write("x" * 41 + "\n" + "y" * 40 + "\nz\n", "a.txt"), max_length=10)
    assert codes(items) == ["CRF430", None, None]
    assert "41 bytes" in items[0].reason


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ('{"text": "a"', "CRF427", "delimiter"),
        ("[1, 2]", "CRF427", "a list"),
        ("null", "CRF427", "NoneType"),
        ('{"text": "a", "x": NaN}', "CRF427", "NaN"),
        ("[" * 100_000, "CRF427", "RecursionError"),
        ('{"body": "a", "n": 1}', "CRF428", "'text' is missing"),
        ('{"text": null}', "CRF428", "'text' is NoneType"),
        ('{"text": 3}', "CRF428", "int"),
    ],
)
def test_bad_lines_of_jsonl(tmp_path, line, code, says):
    path = tmp_path / "a.jsonl"
    write_jsonl(path, [{"text": "before"}, line, "", {"text": "after"}])
    items = read(path, max_length=10_000)
    assert texts(items) == ["before", None, "after"]
    assert codes(items) == [None, code, None]
    assert says in items[1].reason
    assert [item.place for item in items] == [f"{path}:{i}" for i in (1, 2, 4)]


def test_fields_of_jsonl_are_carried_along(tmp_path):
    path = tmp_path / "a.jsonl"
    write_jsonl(path, [{"key": "k1", "body": "Ann", "n": 1, "more": {"a": [1, None]}}, {"key": 7, "body": "Bo"}])
    first, second = read(path, text_field="body", id_field="key")
    assert first == Record("k1", f"{path}:1", "Ann", {"n": 1, "more": {"a": [1, None]}})
    assert second == Record("7", f"{path}:2", "Bo", {})


@pytest.mark.parametrize(
    ("value", "says"), [({}, "is missing"), ({"key": True}, "bool"), ({"key": "\ud800"}, "is str")]
)
def test_an_id_is_a_string_or_a_number(tmp_path, value, says):
    path = tmp_path / "a.jsonl"
    write_jsonl(path, [{"text": "a", **value}])
    (item,) = read(path, id_field="key")
    assert "'key'" in item.reason
    assert says in item.reason
    assert item.id == f"{path}:1"


def test_a_failure_keeps_the_id(tmp_path):
    path = tmp_path / "a.jsonl"
    write_jsonl(path, [{"key": "k", "text": None}])
    assert read(path, id_field="key")[0].id == "k"


@pytest.mark.parametrize("group_size", [1, 3, 100])
@pytest.mark.parametrize("shard_size", [1, 4, 100])
def test_rows_of_parquet(tmp_path, group_size, shard_size, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    monkeypatch.setattr(reading, "_ROWS_AT_ONCE", 2)
    path = tmp_path / "a.parquet"
    table = pa.table({"body": [f"text {i}" for i in range(10)], "n": range(10), "key": [f"k{i}" for i in range(10)]})
    pyarrow.parquet.write_table(table, path, row_group_size=group_size)
    items = read(path, text_field="body", id_field="key", shard_size=shard_size)
    assert items == [Record(f"k{i}", f"{path}:{i + 1}", f"text {i}", {"n": i}) for i in range(10)]


def test_parquet_without_the_column(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({"body": ["a", "b"]}), tmp_path / "a.parquet")
    (item,) = read(tmp_path / "a.parquet")
    assert item.reason.startswith("[CRF436]")
    assert "body" in item.reason
    assert item.id.endswith("a.parquet:1-2")
    assert item.n_docs == 2


def test_values_that_python_cannot_hold_cost_their_row_only(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    dates = pa.array([1, 10**18, 3], pa.timestamp("us"))
    pyarrow.parquet.write_table(pa.table({"text": ["a", "b", "c"], "when": dates}), tmp_path / "a.parquet")
    items = read(tmp_path / "a.parquet")
    assert texts(items) == ["a", None, "c"]
    assert codes(items) == [None, "CRF441", None]


def test_parquet_with_other_values_than_text(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    invalid = pa.array([b"a", b"caf\xe9", None, b"d"], pa.binary()).view(pa.string())
    pyarrow.parquet.write_table(pa.table({"text": invalid}), tmp_path / "a.parquet")
    items = read(tmp_path / "a.parquet")
    assert texts(items) == ["a", None, None, "d"]
    assert codes(items) == [None, "CRF429", "CRF428", None]


def test_what_was_read_before_the_damage_stays(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    write_jsonl(path, [{"text": str(i)} for i in range(5)])
    loads = json.loads

    def fail(line, **kwargs):
        if "3" in line:
            raise OSError("the disk has gone")
        return loads(line, **kwargs)

    monkeypatch.setattr(reading.json, "loads", fail)
    items = read(path)
    assert texts(items) == ["0", "1", "2", None]
    assert items[-1].id == f"{path}:4-5"
    assert items[-1].n_docs == 2
    assert "CRF431" in items[-1].reason


def test_errors_of_several_lines_are_put_into_one():
    assert describe_error(ValueError("\n\nConfig error\n  at  once\n")) == "ValueError: Config error at once"
    assert len(describe_error(ValueError("x" * 10_000))) == 500
