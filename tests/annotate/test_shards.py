"""From slices to shards, in each format."""

import base64
import datetime
import json
import uuid

import pytest
import spacy
from outputs import (
    assert_same_entities,
    ent_rows,
    make_lines,
    read_docs,
    read_errors,
    read_rows,
    shard_paths,
    write_jsonl,
    write_lines,
)
from spacy.tokens import Doc, DocBin
from thinc.util import gpu_is_available

from spacy_bilstm_crf.annotate.rows import carried_names, to_json
from spacy_bilstm_crf.annotate.shards import Annotator

FORMATS = ["jsonl", "parquet", "spacy"]


@pytest.fixture(params=FORMATS)
def output_format(request):
    if request.param == "parquet":
        pytest.importorskip("pyarrow")
    return request.param


def test_every_format_says_the_same(tmp_path, annotate_inline, make_job, loaded, output_format):
    lines = [*make_lines(30), "", "   ", "Anna Schmidt works at Acme Corp in Berlin ."]
    path = write_lines(tmp_path / "a.txt", lines)
    summary = annotate_inline(make_job(output_format=output_format, shard_size=12), [path])
    expected = list(loaded.pipe(lines))
    assert [path.name for path in shard_paths(tmp_path / "out")] == [
        f"part-00000-0000{i}.{output_format}" for i in range(3)
    ]
    ids = [f"{path}:{i + 1}" for i in range(len(lines))]
    if output_format == "spacy":
        docs = read_docs(tmp_path / "out", spacy.blank("en").vocab)
        assert [doc.user_data["id"] for doc in docs] == ids
        assert {(doc.user_data["model"], doc.user_data["model_version"]) for doc in docs} == {("en_tiny", "1.2.3")}
        assert [doc.text for doc in docs] == lines
        assert_same_entities([ent_rows(doc, "prob") for doc in docs], expected)
    else:
        rows = read_rows(tmp_path / "out")
        assert [row["id"] for row in rows] == ids
        assert {(row["model"], row["model_version"]) for row in rows} == {("en_tiny", "1.2.3")}
        assert [row["text"] for row in rows] == lines
        assert_same_entities([row["entities"] for row in rows], expected)
        assert all(0 < ent["probability"] <= 1 for row in rows for ent in row["entities"])
    assert summary.n_docs == len(lines)
    assert summary.n_entities == sum(len(doc.ents) for doc in expected) > 20
    assert summary.n_tokens == sum(len(doc) for doc in expected)


def test_without_probabilities(tmp_path, annotate_inline, make_job, model):
    path = write_lines(tmp_path / "a.txt", make_lines(5))
    annotate_inline(make_job(probabilities=False), [path], nlp=spacy.load(model))
    assert {ent["probability"] for row in read_rows(tmp_path / "out") for ent in row["entities"]} == {None}


FIELDS = {"id": 9, "n": 1, "nested": {"a": [1, None, "ü"]}, "entities": [[0, 3, "PER"]], "model": "mine"}
RENAMED = {"input_id": 9, "n": 1, "nested": FIELDS["nested"], "input_entities": [[0, 3, "PER"]], "input_model": "mine"}


def test_fields_of_jsonl_come_along(tmp_path, annotate_inline, make_job, output_format):
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": "Bob left Paris", **FIELDS}, {"text": "Paris"}])
    annotate_inline(make_job(output_format=output_format), [path])
    if output_format == "jsonl":
        first, second = read_rows(tmp_path / "out")
        own = ["id", "text", "entities", "model", "model_version"]
        assert {name: value for name, value in first.items() if name not in own} == RENAMED
        assert list(second) == own
    elif output_format == "parquet":
        first, second = read_rows(tmp_path / "out")
        assert json.loads(first["fields"]) == FIELDS
        assert second["fields"] is None
    else:
        first, second = read_docs(tmp_path / "out", spacy.blank("en").vocab)
        assert json.dumps(first.user_data["fields"]) == json.dumps(FIELDS)
        assert "fields" not in second.user_data


def make_table(pa):
    when = datetime.datetime(2024, 5, 6, 7, 8, 9)
    columns = {
        "text": ["Bob left Paris", "Paris"],
        "when": pa.array([when, None], pa.timestamp("us")),
        "small": pa.array([1, 2], pa.int8()),
        "tags": pa.array([["a"], []], pa.list_(pa.string())),
        "kind": pa.array(["x", "y"]).dictionary_encode(),
        "raw": pa.array([b"\xff", b""]),
        "id": ["p", "q"],
    }
    return pa.table(columns)


def test_columns_of_parquet_come_along_with_their_types(tmp_path, annotate_inline, make_job):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    table = make_table(pa)
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    annotate_inline(make_job(output_format="parquet"), [str(tmp_path / "a.parquet")])
    result = pyarrow.parquet.read_table(shard_paths(tmp_path / "out")[0])
    own = ["id", "text", "entities", "model", "model_version"]
    assert result.column_names == [*own, "when", "small", "tags", "kind", "raw", "input_id"]
    for name in ("when", "small", "tags", "kind", "raw"):
        assert result.column(name).to_pylist() == table.column(name).to_pylist()
        assert result.schema.field(name).type == table.schema.field(name).type
    assert result.column("input_id").to_pylist() == ["p", "q"]


def test_columns_of_types_that_python_does_not_give_back_come_along_as_text(tmp_path, annotate_inline, make_job):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    ids = [uuid.UUID(int=i) for i in range(2)]
    column = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([one.bytes for one in ids], pa.binary(16)))
    pyarrow.parquet.write_table(pa.table({"text": ["a", "b"], "key": column}), tmp_path / "a.parquet")
    annotate_inline(make_job(output_format="parquet"), [str(tmp_path / "a.parquet")])
    assert [row["key"] for row in read_rows(tmp_path / "out")] == [str(one) for one in ids]


def test_lists_and_structs_of_such_types_as_well(tmp_path, annotate_inline, make_job):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    keys = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)] * 2, pa.binary(16)))
    columns = {"list": pa.ListArray.from_arrays([0, 2, 2], keys), "struct": pa.StructArray.from_arrays([keys], ["k"])}
    pyarrow.parquet.write_table(pa.table({"text": ["a", "b"], **columns}), tmp_path / "a.parquet")
    annotate_inline(make_job(output_format="parquet"), [str(tmp_path / "a.parquet")])
    first, second = read_rows(tmp_path / "out")
    assert json.loads(first["list"]) == [str(uuid.UUID(int=0))] * 2
    assert json.loads(first["struct"]) == {"k": str(uuid.UUID(int=0))}
    assert second["list"] == "[]"


def test_columns_of_parquet_in_the_other_formats(tmp_path, annotate_inline, make_job):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(make_table(pa), tmp_path / "a.parquet")
    annotate_inline(make_job(id_field="id"), [str(tmp_path / "a.parquet")])
    first, second = read_rows(tmp_path / "out")
    assert (first["id"], first["when"], second["when"]) == ("p", "2024-05-06T07:08:09", None)
    assert base64.b64decode(first["raw"]) == b"\xff"
    annotate_inline(make_job(output_format="spacy"), [str(tmp_path / "a.parquet")], force=True)
    docs = read_docs(tmp_path / "out", spacy.blank("en").vocab)
    # msgpack knows no dates; where there are none, it keeps what JSON does not know
    assert docs[0].user_data["fields"]["when"] == "2024-05-06T07:08:09"
    assert docs[1].user_data["fields"] == {"when": None, "small": 2, "tags": (), "kind": "y", "raw": b"", "id": "q"}


def test_docs_in_and_docs_out(tmp_path, annotate_inline, make_job, loaded):
    source = spacy.blank("en")
    words = ["Bob", "left", "un-", "heard-of", "Paris", "."]
    docs = [Doc(source.vocab, words=words, user_data={"mine": i}) for i in range(5)]
    DocBin(docs=docs, store_user_data=True).to_disk(tmp_path / "a.spacy")
    annotate_inline(make_job(output_format="spacy", shard_size=2), [str(tmp_path / "a.spacy")])
    result = read_docs(tmp_path / "out", spacy.blank("en").vocab)
    assert [doc.user_data["mine"] for doc in result] == list(range(5))
    assert [doc.user_data["id"] for doc in result] == [f"{tmp_path / 'a.spacy'}:{i}" for i in range(1, 6)]
    expected = loaded(Doc(loaded.vocab, words=words))
    assert all([token.text for token in doc] == words for doc in result)
    assert all(ent_rows(doc) == ent_rows(expected) != [] for doc in result)


def test_a_doc_whose_user_data_cannot_be_stored_costs_no_other(tmp_path, annotate_inline, make_job):
    nlp = spacy.blank("en")

    @spacy.Language.component("test_unstorable")
    def unstorable(doc):
        if "odd" in doc.text:
            doc.user_data["x"] = object()
        return doc

    nlp.add_pipe("test_unstorable")
    path = write_lines(tmp_path / "a.txt", ["a", "odd", "b"])
    annotate_inline(make_job(output_format="spacy"), [path], nlp=nlp)
    assert [doc.text for doc in read_docs(tmp_path / "out", nlp.vocab)] == ["a", "b"]
    (error,) = read_errors(tmp_path / "out")
    assert error["id"] == f"{path}:2"


def test_what_json_can_escape_and_utf8_cannot_hold(tmp_path, annotate_inline, make_job, output_format):
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": "a", "x": "\ud800"}, {"text": "\ud800"}])
    annotate_inline(make_job(output_format=output_format), [path])
    n_failures = 2 if output_format == "spacy" else 1
    assert len(read_errors(tmp_path / "out")) == n_failures
    if output_format == "jsonl":
        assert read_rows(tmp_path / "out")[0]["x"] == "\ud800"


@pytest.mark.skipif(gpu_is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there(make_job):
    with pytest.raises(ValueError, match=r"CRF432.*GPU"):
        Annotator.load(make_job(), gpu_id=0)


def test_a_shard_without_documents_is_there_all_the_same(tmp_path, annotate_inline, make_job, output_format):
    path = write_jsonl(tmp_path / "a.jsonl", ["bad"])
    summary = annotate_inline(make_job(output_format=output_format), [path])
    assert (summary.n_docs, summary.n_failures, summary.n_shards) == (0, 1, 1)
    rows = read_docs(tmp_path / "out", spacy.blank("en").vocab) if output_format == "spacy" else None
    assert (read_rows(tmp_path / "out") if rows is None else rows) == []


def test_names_that_the_output_has_itself():
    names = carried_names(["id", "input_id", "text", "other"])
    assert names == {"id": "input_input_id", "input_id": "input_id", "text": "input_text", "other": "other"}
    assert len(set(names.values())) == 4


def test_values_that_json_does_not_know():
    assert to_json({"a": datetime.date(2024, 1, 2), "b": b"x", "c": 1 + 2j, "d": "ü"}) == (
        '{"a": "2024-01-02", "b": "eA==", "c": "(1+2j)", "d": "ü"}\n'.encode()
    )


def test_numbers_that_json_does_not_know():
    value = {"a": [float("nan"), 1.5], "b": {"c": float("-inf")}, "d": (float("inf"), "\ud800")}
    assert json.loads(to_json(value), parse_constant=pytest.fail) == {
        "a": [None, 1.5],
        "b": {"c": None},
        "d": [None, "\ud800"],
    }
