"""`python -m spacy crf convert`, through spaCy's own command line."""

import json
import subprocess
import sys

import pytest
import spacy
from spacy.cli._util import app as spacy_app
from spacy.tokens import DocBin
from spacy.util import registry
from typer.testing import CliRunner

from spacy_bilstm_crf.cli import COMMANDS, app
from spacy_bilstm_crf.cli.convert import convert
from spacy_bilstm_crf.formats import ReadOptions

TAGGED = "Ann\tB-PER\nLee\tI-PER\nleft\tO\n\nBo\tB-PER\n"


def run(*args):
    return CliRunner().invoke(spacy_app, ["crf", "convert", *map(str, args)])


def load(path, lang="en"):
    return list(DocBin().from_disk(path).get_docs(spacy.blank(lang).vocab))


def ents(path):
    return [(ent.text, ent.label_) for doc in load(path) for ent in doc.ents]


def test_it_is_a_subcommand_of_spacy():
    assert registry.cli.get("crf") is app
    assert "convert" in COMMANDS
    result = CliRunner().invoke(spacy_app, ["crf", "--help"])
    assert result.exit_code == 0
    assert all(name in result.output for name in COMMANDS)
    assert all(command.__doc__ for command in COMMANDS.values())


def test_loading_the_command_line_loads_nothing_heavy():
    code = (
        "import sys, spacy.cli; before = set(sys.modules); import spacy_bilstm_crf.cli; "
        "print(*(name for name in set(sys.modules) - before if name.split('.')[0] != 'spacy_bilstm_crf' "
        "or name.split('.')[1:2] not in ([], ['cli'], ['errors'])))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def test_python_m_spacy(write, tmp_path):
    args = [sys.executable, "-m", "spacy", "crf", "convert", str(write(TAGGED)), str(tmp_path / "out.spacy")]
    result = subprocess.run(args, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert ents(tmp_path / "out.spacy") == [("Ann Lee", "PER"), ("Bo", "PER")]


def test_file_to_file(write, tmp_path):
    target = tmp_path / "new" / "train.spacy"
    result = run(write(TAGGED), target)
    assert result.exit_code == 0
    assert [len(doc) for doc in load(target)] == [3, 1]
    for text in ["tagged IOB2", "PER", "2 Docs", "train.spacy"]:
        assert text in result.output


def test_file_to_directory(write, tmp_path):
    assert run(write(TAGGED, "dev.v1.conll"), tmp_path / "corpus").exit_code == 0
    assert len(load(tmp_path / "corpus" / "dev.v1.spacy")) == 2


def test_directory(tmp_path):
    source = tmp_path / "in"
    (source / "sub").mkdir(parents=True)
    (source / "train.conll").write_text(TAGGED)
    (source / "sub" / "dev.jsonl").write_text(json.dumps({"text": "Ann left", "spans": [[0, 3, "PER"]]}))
    (source / "README.md").write_text("not data")
    (source / ".hidden.txt").write_text("not data")
    result = run(source, tmp_path / "out")
    assert result.exit_code == 0
    written = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.spacy")}
    assert written == {"train.spacy", "sub/dev.spacy"}
    assert ents(tmp_path / "out" / "sub" / "dev.spacy") == [("Ann", "PER")]
    assert "README.md" in result.output
    assert ".hidden" not in result.output


def test_existing_files_are_not_overwritten(write, tmp_path):
    target = tmp_path / "train.spacy"
    target.write_bytes(b"precious")
    result = run(write(TAGGED), target)
    assert result.exit_code == 1
    assert "CRF409" in result.output
    assert target.read_bytes() == b"precious"
    assert run(write(TAGGED), target, "--force").exit_code == 0
    assert len(load(target)) == 2


def test_options_reach_the_reader(write, tmp_path):
    path = write("a B-X ? z\nb I-X O z\n\nc O U-Y z\n")
    options = ["--token-column", "1", "--tag-column", "-2", "--unknown-tag", "?", "--n-sents", "0", "--scheme", "BILUO"]
    assert run(path, tmp_path / "x.spacy", *options).exit_code == 0
    (doc,) = load(tmp_path / "x.spacy")
    assert [token.ent_iob for token in doc] == [0, 2, 3]
    assert list(doc.user_data["crf_tags"]) == [None, "O", "S-Y"]
    assert doc.user_data["crf_tag_scheme"] == "BIOES"


def test_bad_input_names_file_line_and_finding(write, tmp_path):
    path = write("a\tO\nb\tI-X\nc\tB-X\nd\tO\ne\tB-X\n")
    result = run(path, tmp_path / "x.spacy", "--strict")
    assert result.exit_code == 1
    assert not (tmp_path / "x.spacy").exists()
    flat = "".join(result.output.split())
    assert f"{path}:2:" in flat
    assert "I-XafterO" in flat
    result = run(path, tmp_path / "x.spacy", "--repair")
    assert result.exit_code == 0
    assert "1 x tag that may not stand there" in result.output
    assert "line 2: I-X after O" in result.output


def test_long_lists_are_shortened(write, tmp_path):
    path = write("a\tB-X\nb\tO\nc\tI-X\n\n" * 9)
    result = run(path, tmp_path / "x.spacy")
    assert result.output.count("I-X after O") == 5
    assert "and 4 more" in result.output
    assert run(path, tmp_path / "x.spacy", "-F", "--verbose").output.count("I-X after O") == 9


@pytest.mark.parametrize(
    ("content", "options", "code"),
    [
        ("", [], "CRF408"),
        ("one\ncolumn\n", [], "CRF404"),
        ("a\tNN\nb\tVB\n", [], "CRF405"),
        (TAGGED, ["--tag-column", "5"], "CRF402"),
        (TAGGED, ["--tag-column", "0"], "CRF400"),
        (TAGGED, ["--scheme", "BIX"], "CRF001"),
        (TAGGED, ["--format", "jsonl"], "CRF407"),
        (TAGGED, ["--format", "conllu"], "CRF406"),
        (TAGGED, ["--format", "xml"], "CRF400"),
        (TAGGED, ["--encoding", "utf-16"], "CRF401"),
        (TAGGED, ["--lang", "no-such"], "E048"),
    ],
)
def test_bad_input_exits_with_1(write, tmp_path, content, options, code):
    result = run(write(content), tmp_path / "x.spacy", *options)
    assert result.exit_code == 1
    assert code in result.output
    assert not (tmp_path / "x.spacy").exists()


def test_input_that_does_not_exist(tmp_path):
    assert run(tmp_path / "none.conll", tmp_path / "x.spacy").exit_code == 2


def test_directories_that_cannot_be_converted(tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    assert "CRF411" in run(source, tmp_path / "out").output
    (source / "a.conll").write_text(TAGGED)
    assert "CRF410" in run(source, tmp_path / "out.spacy").output
    (source / "a.iob").write_text(TAGGED)
    result = run(source, tmp_path / "out")
    assert result.exit_code == 1
    assert "CRF410" in result.output
    assert not (tmp_path / "out").exists()


def test_warnings_are_part_of_the_summary(write, tmp_path):
    result = run(write("a\tO\nb\tB-X\n" * 40), tmp_path / "x.spacy", "--max-tokens", "30")
    assert "CRF450" in result.output
    assert [len(doc) for doc in load(tmp_path / "x.spacy")] == [30, 30, 20]


def test_no_entities_is_said(write, tmp_path):
    assert "not one entity" in run(write("a\tO\nb\tO\n"), tmp_path / "x.spacy").output


def test_segmented_text(write, tmp_path):
    result = run(write("我 喜欢 图书馆\n", "train.txt"), tmp_path, "--lang", "zh")
    assert result.exit_code == 0
    assert "Entities" not in result.output
    (doc,) = load(tmp_path / "train.spacy", "zh")
    assert [token.text for token in doc] == ["我", "喜欢", "图书馆"]
    assert (doc.text, doc.has_unknown_spaces) == ("我喜欢图书馆", False)


def test_convert_as_a_function(write, tmp_path, capsys):
    (report,) = convert(write(TAGGED), tmp_path / "x.spacy", options=ReadOptions(n_sents=0))
    assert (report.n_docs, report.n_sents, report.labels) == (1, 2, {"PER": 2})
    assert capsys.readouterr().out == ""


def test_awkward_directory(shared_data, tmp_path):
    result = run(shared_data / "awkward", tmp_path)
    assert result.exit_code == 0
    expected = {
        "4col_nested_comments.GermEval14.dev": 212,
        "DERIVED_bom_crlf_noeol.wnut17": 34,
        "bioes_tab.NCBI-disease.devel": 787,
        "crlf_2col.wnut17.submission": 891,
        "iob1_4col_docstart.SEC-FIN3": 318,
        "no_sentence_breaks.europeana-onb-de": 3343,
        "tokens_with_spaces.BTC-f": 4376,
        "whitespace_separator_lines.wnut17train": 1975,
    }
    assert {path.stem: len(ents(path)) for path in tmp_path.iterdir()} == expected
