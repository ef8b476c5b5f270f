"""`annotate_batch`, on tables and record batches."""

import subprocess
import sys

import pytest
import spacy
from outputs import assert_same_entities, make_lines

import spacy_bilstm_crf
from spacy_bilstm_crf import annotate_batch
from spacy_bilstm_crf.annotate import extras, output_schema

pa = pytest.importorskip("pyarrow")


@pytest.fixture(params=["table", "batch"])
def make(request):
    """Make a table, or a record batch, of columns."""
    return pa.table if request.param == "table" else pa.RecordBatch.from_pydict


def test_rows_and_columns_stay_and_four_come(make, loaded):
    lines = make_lines(40)
    batch = make({"n": range(40), "text": lines})
    result = annotate_batch(loaded, batch)
    assert type(result) is type(batch)
    assert result.schema == output_schema(batch.schema)
    assert result.column_names if hasattr(result, "column_names") else True
    assert result.schema.names == ["n", "text", "entities", "model", "model_version", "error"]
    assert result.column("n").to_pylist() == list(range(40))
    assert_same_entities(result.column("entities").to_pylist(), loaded.pipe(lines))
    assert set(result.column("model").to_pylist()) == {"en_tiny"}
    assert set(result.column("model_version").to_pylist()) == {"1.2.3"}
    assert set(result.column("error").to_pylist()) == {None}


def test_probabilities_are_switched_on_unless_unwanted(model):
    nlp = spacy.load(model)
    table = pa.table({"text": ["Bob left Paris for Globex ."]})
    without = annotate_batch(nlp, table, probabilities=False)["entities"][0].as_py()
    assert [ent["probability"] for ent in without] == [None] * len(without) != []
    ents = annotate_batch(nlp, table)["entities"][0].as_py()
    assert all(ent["probability"] > 0 for ent in ents)
    assert annotate_batch(nlp, table, probabilities=False)["entities"][0].as_py() == ents, "it stays on"


def test_rows_that_cannot_be_annotated_say_why(make):
    nlp = spacy.blank("en")
    nlp.add_pipe("test_fails_on_bad")
    nlp.max_length = 20
    result = annotate_batch(nlp, make({"body": ["good", None, "BAD", "x" * 21]}), text_column="body")
    assert result.column("entities").to_pylist() == [[], None, None, None]
    errors = result.column("error").to_pylist()
    assert errors[0] is None
    for error, says in zip(errors[1:], ["CRF428", "this document is bad", "E088"], strict=True):
        assert says in error


@pytest.mark.parametrize("type_", [pa.large_string(), pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_columns_of_text_of_other_types(loaded, type_):
    table = pa.table({"text": pa.array(["Paris", "Bob"]).cast(type_)})
    assert annotate_batch(loaded, table)["error"].to_pylist() == [None, None]


def test_text_that_is_not_utf8_or_no_text_at_all(loaded):
    table = pa.table({"text": pa.array([b"Paris", b"caf\xe9"]).view(pa.string())})
    errors = annotate_batch(loaded, table)["error"].to_pylist()
    assert errors[0] is None
    assert "CRF429" in errors[1]
    assert "CRF428" in annotate_batch(loaded, pa.table({"text": [1]}))["error"][0].as_py()


def test_nothing_in_nothing_out(make, loaded):
    batch = make({"text": pa.array([], pa.string())})
    result = annotate_batch(loaded, batch)
    assert result.num_rows == 0
    assert result.schema == output_schema(batch.schema)


def test_columns_that_are_missing_or_in_the_way(loaded):
    with pytest.raises(ValueError, match=r"CRF436.*'text'.*body, n"):
        annotate_batch(loaded, pa.table({"body": ["a"], "n": [1]}))
    with pytest.raises(ValueError, match=r"CRF437.*entities, error"):
        annotate_batch(loaded, pa.table({"text": ["a"], "entities": [1], "error": [1]}))


def test_inside_of_a_memory_zone(loaded):
    with loaded.memory_zone():
        assert annotate_batch(loaded, pa.table({"text": ["qwertzuiop"]}))["error"].to_pylist() == [None]


def test_without_the_library(loaded, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"CRF426.*pip install 'spacy-bilstm-crf\[annotate\]'"):
        annotate_batch(loaded, None)
    with pytest.raises(ImportError, match=r"CRF426.*no_such_library.*\[some\]"):
        extras.require("no_such_library.part", "some", "This")


def test_the_package_imports_without_it():
    code = "import sys, spacy_bilstm_crf.annotate, spacy_bilstm_crf.cli; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    with pytest.raises(AttributeError, match="no_such_name"):
        spacy_bilstm_crf.no_such_name  # noqa: B018
    with pytest.raises(AttributeError, match="no_such_name"):
        spacy_bilstm_crf.annotate.no_such_name  # noqa: B018
