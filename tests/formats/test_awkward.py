"""Real files as they are found in the wild, against a simple reading of each."""

import re
import warnings
from collections import Counter
from pathlib import Path

import pytest
from spacy.training.converters import conll_ner_to_docs

from spacy_bilstm_crf.formats import Finding, ReadOptions, ReadReport, read_docs

PAGE = Path(__file__).resolve().parents[2] / "docs" / "annotation.md"

# name, separator, 0-based columns of token and tag, options, scheme that is reported, Docs, tokens
FILES = [
    ("4col_nested_comments.GermEval14.dev.tsv", "\t", 1, 3, {}, "IOB2", 2200, 41653),
    ("4col_nested_comments.GermEval14.dev.tsv", "\t", 1, 2, {"tag_column": 3}, "IOB2", 2200, 41653),
    ("DERIVED_bom_crlf_noeol.wnut17.conll", "\t", 0, 1, {}, "IOB2", 50, 926),
    ("bioes_tab.NCBI-disease.devel.tsv", "\t", 0, 1, {}, "BIOES", 923, 23969),
    ("crlf_2col.wnut17.submission.txt", "\t", 0, 1, {}, "IOB2", 1287, 23394),
    ("iob1_4col_docstart.SEC-FIN3.txt", " ", 0, 3, {}, "IOB1", 303, 13246),
    ("no_sentence_breaks.europeana-onb-de.bio", " ", 0, 1, {"max_tokens": 0}, "IOB2", 1, 28012),
    ("no_sentence_breaks.europeana-onb-de.bio", " ", 0, 1, {}, "IOB2", None, 28012),
    ("tokens_with_spaces.BTC-f.conll", "\t", 0, 1, {}, "IOB2", 2000, 35427),
    ("whitespace_separator_lines.wnut17train.conll", "\t", 0, 1, {}, "IOB2", 3394, 62730),
]


def read_simply(path, separator, token, tag):
    """Tokens of the file, and the number of entities of each label."""
    tokens, entities = [], Counter()
    before = "O"
    for line in path.read_bytes().decode("utf-8-sig").split("\n"):
        line = line.removesuffix("\r")
        cells = line.split(separator)
        is_comment = re.match(r"#\t.*\[[\d-]+\]\t$", line)
        if not line.strip() or is_comment or line.startswith("-DOCSTART-"):
            before = "O"
            continue
        tokens.append(cells[token] or " ")
        now = cells[tag]
        if now != "O" and (now[0] in "BS" or before == "O" or before[1:] != now[1:] or before[0] in "ES"):
            entities[now[2:]] += 1
        before = now
    return tokens, entities


@pytest.mark.parametrize(("name", "separator", "token", "tag", "options", "scheme", "n_docs", "n_tokens"), FILES)
def test_entities_of_awkward_files(shared_data, nlp, name, separator, token, tag, options, scheme, n_docs, n_tokens):
    path = shared_data / "awkward" / name
    report = ReadReport()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\[CRF450\]")
        docs = list(read_docs(path, nlp, options=ReadOptions(**options), report=report))
    tokens, entities = read_simply(path, separator, token, tag)
    assert [token.text for doc in docs for token in doc] == tokens
    assert Counter(ent.label_ for doc in docs for ent in doc.ents) == entities
    assert report.labels == entities
    assert report.n_ents == sum(entities.values()) > 0
    assert report.scheme == scheme
    assert report.n_tokens == len(tokens) == n_tokens
    assert n_docs in (len(docs), None)
    assert report.n_unknown == 0


def test_awkward_things_are_reported(shared_data, nlp):
    reports = {}
    for path in sorted((shared_data / "awkward").iterdir()):
        reports[path.name.split(".")[0]] = report = ReadReport()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            list(read_docs(path, nlp, report=report))
        assert bool(caught) == path.name.startswith("no_sentence_breaks")
    found = {name: {kind: len(where) for kind, where in report.findings.items()} for name, report in reports.items()}
    assert found.pop("tokens_with_spaces") == {Finding.BLANK_TOKEN: 1}
    assert found.pop("crlf_2col") == {Finding.ILLEGAL_TAG: 13}
    assert found.pop("no_sentence_breaks") == {Finding.ILLEGAL_TAG: 41}
    assert not any(found.values())
    assert reports["4col_nested_comments"].n_comments == 2200
    assert "column 3 holds tags as well" in " ".join(reports["4col_nested_comments"].notes)


def test_tokens_are_kept_exactly(shared_data, nlp):
    awkward = shared_data / "awkward"
    texts = [token.text for doc in read_docs(awkward / "tokens_with_spaces.BTC-f.conll", nlp) for token in doc]
    assert sum(text.endswith(" ") and bool(text.strip()) for text in texts) > 100
    assert texts.count(" ") == 2
    texts = [token.text for doc in read_docs(awkward / "iob1_4col_docstart.SEC-FIN3.txt", nlp) for token in doc]
    assert sum("\ufffd" in text for text in texts) > 0
    texts = [t.text for doc in read_docs(awkward / "4col_nested_comments.GermEval14.dev.tsv", nlp) for t in doc]
    assert sum("\xad" in text for text in texts) > 0


@pytest.mark.parametrize("corpus", ["wnut17", "ncbi_disease", "btc", "germeval2014_carved"])
def test_entities_of_corpora(shared_data, nlp, corpus):
    path = shared_data / corpus / "dev.conll"
    report = ReadReport()
    docs = list(read_docs(path, nlp, options=ReadOptions(scheme="IOB2"), report=report))
    n_begin = sum(line.rpartition("\t")[2].startswith("B-") for line in path.read_text("utf8").split("\n"))
    assert sum(len(doc.ents) for doc in docs) == n_begin
    assert not report.findings.keys() - {Finding.BLANK_TOKEN}


def count_with_spacy(path):
    """Entities by `spacy convert --converter ner`."""
    try:
        docs = list(conll_ner_to_docs(path.read_text(encoding="utf8"), n_sents=1, no_print=True))
    except ValueError:
        return "an error"
    return f"{sum(len(doc.ents) for doc in docs):,}"


@pytest.mark.slow  # spaCy reads a Doc of 46,486 tokens in quadratic time
def test_the_page_shows_both_converters(shared_data, nlp):
    table = PAGE.read_text(encoding="utf8").partition("<!-- awkward -->")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in table.strip().split("\n")[2:]]
    assert [row[0].strip("`") for row in rows] == sorted(path.name for path in (shared_data / "awkward").iterdir())
    read_by = {name: columns for name, *columns, _, _, _, _ in reversed(FILES)}
    for name, expected, ours, theirs, *_ in rows:
        path = shared_data / "awkward" / name.strip("`")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            docs = list(read_docs(path, nlp))
            assert theirs == count_with_spacy(path)
        assert expected == f"{sum(read_simply(path, *read_by[path.name])[1].values()):,}"
        assert ours == f"{sum(len(doc.ents) for doc in docs):,}"
