"""The commands that look into a trained pipeline: calibrate, rank, report, explain."""

import json
import sys

import pytest
import spacy
from spacy.cli._util import app as spacy_app
from spacy.tokens import DocBin
from tiny_pipelines import SENTENCES, make_examples, predict_ents, train_nlp
from typer.testing import CliRunner

from spacy_bilstm_crf.cli.calibrate import calibrate
from spacy_bilstm_crf.cli.explain import explain
from spacy_bilstm_crf.cli.rank import rank
from spacy_bilstm_crf.cli.report import report


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a model that has learnt its sentences by heart, and text that is annotated otherwise."""
    path = tmp_path_factory.mktemp("trained")
    nlp = train_nlp()
    nlp.to_disk(path / "model")
    wrong = [(text, [(start, end, "ORG") for start, end, _ in ents[:1]]) for text, ents in SENTENCES]
    docs = [example.reference for example in make_examples(nlp, [*SENTENCES, *wrong] * 4)]
    DocBin(docs=docs).to_disk(path / "dev.spacy")
    (path / "texts.txt").write_text("Bob left Paris .\nunheard words\n", encoding="utf8")
    return path


def run(*args):
    return CliRunner().invoke(spacy_app, ["crf", *map(str, args)])


def test_calibrate_stores_a_scaling_and_changes_no_entity(folder, tmp_path):
    result = run("calibrate", folder / "model", folder / "dev.spacy", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "Reliability after" in result.output
    before, after = spacy.load(folder / "model"), spacy.load(tmp_path / "out")
    assert before.get_pipe("ner_crf").cfg["temperature"] == 1.0
    assert after.get_pipe("ner_crf").cfg["temperature"] > 1.5
    assert set(after.get_pipe("ner_crf").cfg["label_biases"]) == {"LOC", "ORG", "PER"}
    assert predict_ents(after) == predict_ents(before)


def test_calibrate_says_when_there_is_nothing_to_do(folder, tmp_path):
    first = calibrate(str(folder / "model"), folder / "dev.spacy", tmp_path / "out")
    assert first.total.helps
    assert first.total.after.ece < first.total.before.ece
    assert set(first.by_label) == {"LOC", "ORG", "PER"}
    result = run("calibrate", tmp_path / "out", folder / "dev.spacy", tmp_path / "again")
    assert result.exit_code == 0
    assert "calibrated already" in result.output
    again = spacy.load(tmp_path / "again").get_pipe("ner_crf").scaling
    assert again.temperature == pytest.approx(first.total.scaling.temperature)
    assert again.biases == pytest.approx(first.total.scaling.biases)


def test_calibrate_needs_entities(folder, tmp_path):
    nlp = spacy.load(folder / "model")
    DocBin(docs=[example.reference for example in make_examples(nlp)]).to_disk(tmp_path / "few.spacy")
    with pytest.raises(ValueError, match="CRF472"):
        calibrate(str(folder / "model"), tmp_path / "few.spacy", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_rank_writes_the_most_uncertain_first(folder, tmp_path):
    output = tmp_path / "out.jsonl"
    result = run("rank", folder / "model", folder / "texts.txt", output)
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in output.read_text(encoding="utf8").splitlines()]
    assert [row["text"] for row in rows] == ["unheard words", "Bob left Paris ."]
    assert run("rank", folder / "model", folder / "texts.txt", output).exit_code == 1
    assert run("rank", folder / "model", folder / "texts.txt", output, "--force", "--limit", 1).exit_code == 0
    assert len(output.read_text(encoding="utf8").splitlines()) == 1


def test_rank_refuses_what_it_cannot_do(folder, tmp_path):
    result = run("rank", folder / "model", folder / "texts.txt", tmp_path / "out.jsonl", "--by", "luck")
    assert result.exit_code == 1
    assert "CRF476" in result.output
    (tmp_path / "empty.txt").write_text("\n", encoding="utf8")
    with pytest.raises(ValueError, match="CRF474"):
        rank(str(folder / "model"), tmp_path / "empty.txt", tmp_path / "out.jsonl")
    assert run("rank", folder / "none", folder / "texts.txt", tmp_path / "out.jsonl").exit_code == 1
    assert run("rank", folder / "model", folder / "none.txt", tmp_path / "out.jsonl").exit_code == 2


def test_report_is_one_page_without_links(folder, tmp_path):
    pytest.importorskip("vl_convert")
    output = tmp_path / "report.html"
    result = run("report", folder / "model", folder / "dev.spacy", output)
    assert result.exit_code == 0, result.output
    page = output.read_text(encoding="utf8")
    for part in ("http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"):
        page = page.replace(part, "")
    assert "http://" not in page
    assert "https://" not in page
    assert "src=" not in page
    with pytest.raises(ValueError, match="CRF471"):
        report(str(folder / "model"), folder / "dev.spacy", output)


def test_report_says_what_to_install(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    result = run("report", folder / "model", folder / "dev.spacy", tmp_path / "report.html")
    assert result.exit_code == 1
    assert "CRF477" in result.output
    assert "[report]" in result.output


def test_report_of_an_empty_corpus(folder, tmp_path):
    DocBin().to_disk(tmp_path / "empty.spacy")
    with pytest.raises(ValueError, match="CRF474"):
        report(str(folder / "model"), tmp_path / "empty.spacy", tmp_path / "report.html")


def test_explain_prints_tokens_and_paths(folder):
    result = run("explain", folder / "model", "Bob left Paris .", "--paths", 3)
    assert result.exit_code == 0, result.output
    assert "S-LOC" in result.output
    assert "Bob (PER), Paris (LOC)" in result.output


def test_explain_draws_the_lattice(folder, tmp_path):
    explanation = explain(str(folder / "model"), "Bob left <b>Paris</b> .", tmp_path / "lattice.html", n_paths=3)
    page = (tmp_path / "lattice.html").read_text(encoding="utf8")
    assert page.count('type="radio"') == len(explanation.paths) == 3
    assert "<b>Paris" not in page
    assert "http" not in page
    assert explanation.marginals.sum(axis=1) == pytest.approx(1.0, abs=1e-5)
    assert explanation.pairs[1:].sum(axis=(1, 2)) == pytest.approx(1.0, abs=1e-5)
    assert explanation.pairs[0].sum() == 0.0
    best = [explanation.tags[i] for i in explanation.tag_ids[0]]
    assert best == explanation.paths[0].tags


def test_explain_needs_a_word(folder):
    result = run("explain", folder / "model", "")
    assert result.exit_code == 1
    assert "CRF475" in result.output


@pytest.mark.parametrize("command", ["calibrate", "rank", "report", "explain"])
def test_every_command_has_help(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "--gpu-id" in result.output
    assert "--force" in result.output
