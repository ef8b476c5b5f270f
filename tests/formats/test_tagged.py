"""Files of tagged tokens: every awkward thing on its own."""

import pytest
import spacy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spacy.training import Example

from spacy_bilstm_crf.formats import Finding, ReadOptions, ReadReport, read_docs, read_tagged
from spacy_bilstm_crf.tag_scheme import TagScheme


def read(path, nlp, **options):
    report = ReadReport()
    return list(read_tagged(path, nlp.vocab, options=ReadOptions(**options), report=report)), report


def ents(doc):
    return [(ent.start, ent.end, ent.label_) for ent in doc.ents]


def lines(text, separator="\t"):
    """A tagged file from "token/tag token/tag", a sentence per line of `text`."""
    sentences = [line.split() for line in text.strip().split("\n")]
    return "\n\n".join("\n".join(pair.replace("/", separator) for pair in sentence) for sentence in sentences) + "\n"


SCHEMES = [
    ("IOB2", "Ann/B-PER Lee/I-PER met/O Bo/B-PER Cy/B-PER"),
    ("BIOES", "Ann/B-PER Lee/E-PER met/O Bo/S-PER Cy/S-PER"),
    ("BILUO", "Ann/B-PER Lee/L-PER met/O Bo/U-PER Cy/U-PER"),
    ("BMES", "Ann/B-PER May/M-PER Lee/E-PER met/O Bo/S-PER"),
    ("IOB1", "Ann/I-PER Lee/I-PER met/O Bo/I-PER Cy/B-PER"),
    ("IO", "Ann/PER Lee/PER met/O Paris/LOC"),
]
EXPECTED = {
    "BMES": [(0, 3, "PER"), (4, 5, "PER")],
    "IO": [(0, 2, "PER"), (3, 4, "LOC")],
}


@pytest.mark.parametrize("separator", ["\t", " ", "   ", " \t"])
@pytest.mark.parametrize(("scheme", "text"), SCHEMES)
def test_schemes_are_detected(nlp, write, scheme, text, separator):
    (doc,), report = read(write(lines(text, separator)), nlp)
    assert report.scheme == scheme
    assert ents(doc) == EXPECTED.get(scheme, [(0, 2, "PER"), (3, 4, "PER"), (4, 5, "PER")])
    assert report.findings == {}
    assert read(write(lines(text, separator)), nlp, scheme=scheme.lower(), strict=True)[1].scheme == scheme


def test_only_i_is_told_as_ambiguous(nlp, write):
    (doc,), report = read(write(lines("Ann/I-PER Lee/I-PER met/O")), nlp)
    assert ents(doc) == [(0, 2, "PER")]
    assert (report.scheme, "or IO" in report.notes[0]) == ("IOB1", True)


def test_prefixes_alone_get_a_label(nlp, write):
    (doc,), report = read(write(lines("Ann/B Lee/I met/O Bo/B")), nlp)
    assert ents(doc) == [(0, 2, "ENTITY"), (3, 4, "ENTITY")]
    assert report.scheme == "IOB2"


def test_word_segmentation_in_bmes(write):
    nlp = spacy.blank("zh")
    docs, report = read(write(lines("我/S 喜/B 欢/E\n图/B 书/M 馆/E 好/S")), nlp)
    assert [[token.text for token in doc] for doc in docs] == [["我", "喜欢"], ["图书馆", "好"]]
    assert [doc.text for doc in docs] == ["我喜欢", "图书馆好"]
    assert report.scheme == "BMES"


def test_bom_crlf_and_no_end_of_line(nlp, write):
    docs, report = read(write(b"\xef\xbb\xbfAnn\tB-PER\r\nleft\tO\r\n \t \r\nBo\tB-PER"), nlp)
    assert [[token.text for token in doc] for doc in docs] == [["Ann", "left"], ["Bo"]]
    assert report.n_ents == 2


def test_old_mac_line_ends(nlp, write):
    docs, _ = read(write(b"Ann\tB-PER\rleft\tO\r\rBo\tB-PER\r"), nlp)
    assert [len(doc) for doc in docs] == [2, 1]


@pytest.mark.parametrize("token", ["a\u2028b", "\x85", "\x0b", "a\x1cb", "\u00a0", "\u3000x"])
def test_other_line_separators_belong_to_tokens(nlp, write, token):
    (doc,), _ = read(write(f"{token}\tB-PER\nx\tO\n"), nlp)
    assert [word.text for word in doc] == [token, "x"]
    assert ents(doc) == [(0, 1, "PER")]


@pytest.mark.parametrize(
    "token", ["\ufffd", "Donau\xaddampf", "\xad", "\u200e", "🇩🇪", "New York", "end ", " start", "  "]
)
def test_odd_tokens_are_kept(nlp, write, token):
    (doc,), report = read(write(f"{token}\tB-X\nx\tO\n"), nlp)
    assert doc[0].text == token
    assert ents(doc) == [(0, 1, "X")]
    assert report.findings == {}


@pytest.mark.parametrize(("line", "separator"), [("\tB-X", "\t"), (" B-X", " ")])
def test_empty_token(nlp, write, line, separator):
    path = write(f"a{separator}O\nb{separator}O\n{line}\nc{separator}O\n")
    (doc,), report = read(path, nlp)
    assert [token.text for token in doc] == ["a", "b", " ", "c"]
    assert ents(doc) == [(2, 3, "X")]
    assert report.findings == {Finding.BLANK_TOKEN: [f"{path}:3: {line!r}"]}
    with pytest.raises(ValueError, match=r"CRF403.*:3: empty token"):
        read(path, nlp, strict=True)


def test_comments_and_tokens_that_begin_with_hash(nlp, write):
    text = "# id = 7\n# text = # 1 is #one\n#\tO\n1\tO\nis\tO\n#one\tB-X\n#\n# note\tabout this\n\n#tag\tO\n"
    docs, report = read(write(text), nlp)
    assert [[token.text for token in doc] for doc in docs] == [["#", "1", "is", "#one"], ["#tag"]]
    assert report.n_comments == 4
    assert report.n_ents == 1


def test_comment_in_the_middle_does_not_end_a_sentence(nlp, write):
    docs, _ = read(write("Ann\tB-X\n# note\nLee\tI-X\n"), nlp)
    assert [ents(doc) for doc in docs] == [[(0, 2, "X")]]


def test_docstart_separates_documents(nlp, write):
    text = "-DOCSTART- -X- O O\n\na N O B-X\n\nb N O O\n-DOCSTART- -X- O O\n\nc N O O\n\n\nd N O I-X\n-DOCSTART-\n"
    path = write(text)
    docs, _ = read(path, nlp, n_sents=0)
    assert [[token.text for token in doc] for doc in docs] == [["a", "b"], ["c", "d"]]
    assert [[token.is_sent_start for token in doc] for doc in docs] == [[True, True], [True, True]]
    docs, report = read(path, nlp, n_sents=3)
    assert [len(doc) for doc in docs] == [2, 2]
    assert report.n_sents == 4
    assert [len(doc) for doc in read(path, nlp)[0]] == [1, 1, 1, 1]


def test_columns(nlp, write):
    path = write("Ann NNP B-NP B-PER B-X\nleft VBD B-VP O O\n")
    assert ents(read(path, nlp)[0][0]) == [(0, 1, "X")]
    assert ents(read(path, nlp, tag_column=4)[0][0]) == ents(read(path, nlp, tag_column=-2)[0][0]) == [(0, 1, "PER")]
    assert read(path, nlp, token_column=2)[0][0].text == "NNP VBD "
    assert "column 3, 4 holds tags as well" in read(path, nlp)[1].notes[0]


def test_numbered_tokens(nlp, write):
    (first, second), report = read(write("1\tAnn\tO\tB-X\n2\tran\tO\tO\n\n1\tBo\tO\tB-X\n"), nlp)
    assert (first.text, second.text) == ("Ann ran ", "Bo ")
    assert "numbers the tokens" in report.notes[0]
    assert read(write("1\tB-X\n2\tO\n"), nlp)[0][0].text == "1 2 "
    assert read(write("1\tCD\tB-X\n7\tCD\tO\n"), nlp)[0][0].text == "1 7 "


@pytest.mark.parametrize("options", [{"tag_column": 3}, {"tag_column": -3}, {"token_column": 7}])
def test_column_that_does_not_exist(nlp, write, options):
    with pytest.raises(ValueError, match=r"CRF402.*have 2 columns"):
        read(write("a\tO\n"), nlp, **options)


def test_one_column(nlp, write):
    with pytest.raises(ValueError, match=r"CRF404.*:1: .*'Hello'"):
        read(write("Hello\nworld\n"), nlp)


@pytest.mark.parametrize("options", [{"scheme": "auto"}, {"scheme": "BIO"}, {"tag_column": 3}])
def test_wrong_column(nlp, write, options):
    with pytest.raises(ValueError, match=r"CRF405.*'NNP'.*column 1 holds tags as well"):
        read(write("B-X Ann NNP\nO left VBD\nO . .\n"), nlp, token_column=2, **options)


def test_wrong_scheme(nlp, write):
    with pytest.raises(ValueError, match=r"CRF405.*scheme IO, .*'B-X'"):
        read(write("a\tB-X\nb\tO\n"), nlp, scheme="IO")
    with pytest.raises(ValueError, match="CRF001"):
        read(write("a\tB-X\n"), nlp, scheme="BIOEX")


@pytest.mark.parametrize(
    ("text", "scheme", "expected", "line", "found"),
    [
        ("a/B-X b/O c/I-X", "IOB2", [(0, 1, "X"), (2, 3, "X")], 3, "I-X after O"),
        ("a/B-X b/I-Y\nc/B-X", "IOB2", [(0, 1, "X"), (1, 2, "Y")], 2, "I-Y after B-X"),
        ("a/I-X b/O c/B-X d/B-X", "IOB2", [(0, 1, "X"), (2, 3, "X"), (3, 4, "X")], 1, "I-X after the start"),
        ("a/B-X b/O c/S-X", "BIOES", [(0, 1, "X"), (2, 3, "X")], 2, "O after B-X"),
        ("a/S-X b/B-X c/I-X", "BIOES", [(0, 1, "X"), (1, 3, "X")], 3, "the end of the sentence after I-X"),
        ("a/I-X b/O c/I-X d/O e/B-X", "IOB1", [(0, 1, "X"), (2, 3, "X"), (4, 5, "X")], 5, "B-X after O"),
    ],
)
def test_repair_and_strict(nlp, write, text, scheme, expected, line, found):
    path = write(lines(text))
    docs, report = read(path, nlp)
    assert report.scheme == scheme
    assert ents(docs[0]) == expected
    assert report.findings[Finding.ILLEGAL_TAG][0].startswith(f"{path}:{line}: {found}")
    with pytest.raises(ValueError, match=rf"CRF403.*data.conll:{line}: .*{found}"):
        read(path, nlp, strict=True)


def test_unreadable_tags_are_unknown_not_outside(nlp, write):
    path = write("Token\tTag\na\tB-X\nb\tO\nc\t0\nd\tB-X\ne\nf\tO\n")
    (doc,), report = read(path, nlp)
    assert [token.ent_iob for token in doc] == [0, 3, 2, 0, 0, 0, 2]
    assert report.n_findings(Finding.UNREADABLE_TAG) == 2
    assert report.findings[Finding.NO_TAG] == [f"{path}:6: 'e'"]
    assert report.n_unknown == 4
    with pytest.raises(ValueError, match=r"CRF403.*:6: line without a tag"):
        read(path, nlp, strict=True)


def test_lines_with_more_columns(nlp, write):
    path = write("a\tO\t\nb\tB-X\t\nc\tO\tsee note\n#d\tO\t \t\n")
    (doc,), report = read(path, nlp)
    assert (ents(doc), doc.text) == ([(1, 2, "X")], "a b c #d ")
    assert report.findings == {Finding.EXTRA_COLUMNS: [f"{path}:3: 'c\\tO\\tsee note'"]}
    (doc,), report = read(write("a O\nNew York City B-X\nc O\n"), nlp)
    assert [token.text for token in doc] == ["a", "New York City", "c"]
    assert ents(doc) == [(1, 2, "X")]
    assert report.n_findings(Finding.EXTRA_COLUMNS) == 1


def test_wrong_encoding(nlp, write):
    path = write("a\tO\nMünchen\tB-LOC\n".encode("latin1"))
    with pytest.raises(ValueError, match=r"CRF401.*data.conll:2: .*utf-8"):
        read(path, nlp)
    assert read(path, nlp, encoding="latin1")[0][0][1].text == "München"
    with pytest.raises(ValueError, match="CRF401"):
        read(path, nlp, encoding="utf-99")


@pytest.mark.parametrize("content", ["", "\n\n", " \t \n", "\ufeff"])
def test_nothing_in_the_file(nlp, write, content):
    docs, report = read(write(content), nlp)
    assert (docs, report.n_docs) == ([], 0)


@pytest.mark.parametrize(
    "options",
    [{"n_sents": -1}, {"max_tokens": -2}, {"token_column": 0}, {"tag_column": 0}, {"unknown_tag": ""}, {"format": "x"}],
)
def test_bad_options(options):
    with pytest.raises(ValueError, match=f"CRF400.*{next(iter(options))}"):
        ReadOptions(**options)


def test_long_text_is_cut_outside_of_entities(nlp, write):
    words = ["Ann/B-X", "Lee/I-X", "ran/O", "./O"] * 50 + ["Bo/B-X"] + ["x/I-X"] * 30 + ["y/O"] * 5
    path = write(lines(" ".join(words)))
    with pytest.warns(UserWarning, match=r"CRF450.*1 of 1 sentences.*20 tokens.*236") as caught:
        docs, report = read(path, nlp, max_tokens=20)
    assert caught[0].filename == __file__
    assert sum(len(doc) for doc in docs) == len(words)
    assert report.n_ents == 51
    assert all(doc[-1].text == "." for doc in docs[:10])
    assert [len(doc) for doc in docs if len(doc) > 20] == [31], "an entity longer than the limit stays whole"
    assert not any(token.is_sent_start for doc in docs for token in doc[1:])
    assert not docs[0].has_annotation("SENT_START")
    assert len(read(path, nlp, max_tokens=0)[0]) == 1
    assert len(read(path, nlp)[0]) == 1


def test_parts_of_long_sentences_are_not_mixed_with_others(nlp, write):
    path = write(lines("a/O b/B-X\n" + "c/O " * 7 + "\nd/O\ne/O"))
    with pytest.warns(UserWarning, match="CRF450"):
        docs, _ = read(path, nlp, max_tokens=3, n_sents=2)
    assert ["".join(token.text for token in doc) for doc in docs] == ["ab", "ccc", "ccc", "c", "de"]


def test_spaces_are_unknown_or_absent(nlp, write):
    path = write(lines("东/B-LOC 京/I-LOC 好/O"))
    (doc,), _ = read(path, nlp)
    assert doc.has_unknown_spaces
    (doc,), _ = read(path, spacy.blank("zh"))
    assert (doc.text, doc.has_unknown_spaces) == ("东京好", False)


def test_sentence_starts(nlp, write):
    docs, _ = read(write(lines("a/O b/B-X\nc/O\nd/O e/O")), nlp, n_sents=2)
    assert [[token.is_sent_start for token in doc] for doc in docs] == [[True, False, True], [True, False]]


def test_examples_align(nlp, write):
    (doc,), _ = read(write("a \tB-X\nb\tI-X\n\xad\tO\n  \tO\n"), nlp)
    example = Example(nlp.make_doc(doc.text), doc)
    assert len(example.get_aligned_ner()) == len(example.predicted)


@pytest.mark.parametrize(("content", "kind"), [("a\tO\n", "tagged"), ('{"text": "a"}\n', "jsonl")])
def test_read_docs_finds_the_format(nlp, write, content, kind):
    report = ReadReport()
    assert len(list(read_docs(write(content, "data.txt"), nlp, report=report))) == 1
    assert report.format == kind


TOKENS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r"), min_size=1, max_size=5).filter(
    lambda token: not token.startswith(("#", "-DOCSTART-", "\ufeff"))
)


@st.composite
def tagged_files(draw):
    """A file of random tokens and spans, and what is to be read from it."""
    name = draw(st.sampled_from(["IOB2", "BIOES", "BMES", "IO"]))
    scheme = TagScheme("BIO" if name == "IOB2" else name)
    eol = draw(st.sampled_from(["\n", "\r\n"]))
    docs, rows = [], []
    for _ in range(draw(st.integers(1, 4))):
        spans, words = [], []
        for width in draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)):
            label = draw(st.sampled_from(["X", "a-b", None]))
            if label and not (name == "IO" and spans and spans[-1][1:] == (len(words), label)):
                spans.append((len(words), len(words) + width, label))
            words += [draw(TOKENS) for _ in range(width)]
        docs.append((words, spans))
        rows += [f"{word}\t{tag}" for word, tag in zip(words, scheme.spans_to_tags(spans, len(words)), strict=True)]
        rows.append(draw(st.sampled_from(["", " ", "\t", " \t  "])))
    bom = draw(st.sampled_from(["", "\ufeff"]))
    return name, docs, bom + eol.join(rows)


@given(tagged_files())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read(nlp, write, case):
    name, expected, content = case
    docs, report = read(write(content), nlp, scheme=name, strict=True)
    assert [([token.text for token in doc], ents(doc)) for doc in docs] == expected
    # detection may find another scheme where tags leave it open, but never reads other entities
    docs, report = read(write(content), nlp)
    assert [ents(doc) for doc in docs] == [spans for _, spans in expected]
    assert report.findings.keys() <= {Finding.ILLEGAL_TAG}
