"""Segmented text."""

import pytest
import spacy

from spacy_bilstm_crf.formats import ReadOptions, ReadReport, detect_format, read_conllu, read_docs, read_segmented

SEGMENTED = "同样 , 施力 的 大小 不同 .\n\n  我  喜欢 Windows XP \n"
CONLLU = """# sent_id = 1
# text = 我喜欢 du pain.
1\t我\t_\tPRON\t_\t_\t2\tnsubj\t_\tSpaceAfter=No
2\t喜欢\t_\tVERB\t_\t_\t0\troot\t_\t_
3-4\tdu\t_\t_\t_\t_\t_\t_\t_\t_
3\tde\t_\tADP\t_\t_\t5\tcase\t_\t_
4\tle\t_\tDET\t_\t_\t5\tdet\t_\t_
5\tpain\t_\tNOUN\t_\t_\t2\tobj\t_\tGloss=x|SpaceAfter=No
5.1\tnothing\t_\t_\t_\t_\t_\t_\t_\t_
6\t.\t_\tPUNCT\t_\t_\t2\tpunct\t_\t_

1\t#\t_\tSYM\t_\t_\t0\troot\t_\t_
"""


@pytest.fixture(scope="module")
def zh():
    return spacy.blank("zh")


def read(reader, path, nlp, **options):
    report = ReadReport()
    return list(reader(path, nlp.vocab, options=ReadOptions(**options), report=report)), report


def test_segmented(zh, write):
    docs, report = read(read_segmented, write(SEGMENTED), zh)
    words = [["同样", ",", "施力", "的", "大小", "不同", "."], ["我", "喜欢", "Windows", "XP"]]
    assert [[token.text for token in doc] for doc in docs] == words
    assert [doc.text for doc in docs] == ["同样,施力的大小不同.", "我喜欢WindowsXP"]
    assert not any(doc.has_unknown_spaces or doc.has_annotation("ENT_IOB") for doc in docs)
    assert (report.format, report.n_docs, report.n_sents, report.n_tokens) == ("seg", 2, 2, 11)


def test_sentences_per_doc(zh, write):
    (doc,), report = read(read_segmented, write(SEGMENTED), zh, n_sents=0)
    assert [sent.start for sent in doc.sents] == [0, 7]
    assert report.n_sents == 2
    docs, _ = read(read_segmented, write("a b\nc\nd\n"), zh, n_sents=2)
    assert [len(doc) for doc in docs] == [3, 1]


def test_conllu(nlp, zh, write):
    path = write(CONLLU, "a.conllu")
    (first, second), report = read(read_conllu, path, nlp)
    assert [token.text for token in first] == ["我", "喜欢", "du", "pain", "."]
    assert (first.text, second.text) == ("我喜欢 du pain. ", "# ")
    assert (report.n_sents, report.n_comments) == (2, 2)
    assert read(read_conllu, path, zh)[0][0].text == "我喜欢dupain."


@pytest.mark.parametrize("line", ["1\tword", "x\t" + "_\t" * 8 + "_", "1-\t" + "_\t" * 8 + "_", "no tabs"])
def test_lines_that_are_not_conllu(nlp, write, line):
    with pytest.raises(ValueError, match=r"CRF406.*data.conll:2: "):
        read(read_conllu, write(f"# comment\n{line}\n"), nlp)


@pytest.mark.parametrize(
    ("name", "content", "lang", "kind"),
    [
        ("a.txt", SEGMENTED, "zh", "seg"),
        ("a.txt", SEGMENTED, "en", "tagged"),
        ("a.txt", "我 S-X\n好 O\n", "zh", "tagged"),
        ("a.seg", "a b\n", "en", "seg"),
        ("a.conllu", "", "en", "conllu"),
        ("a.jsonl", "", "en", "jsonl"),
        ("a.txt", '["Ann", {"entities": []}]\n', "en", "jsonl"),
        ("a.txt", '[ O\n" O\n', "en", "tagged"),
        ("a.txt", "", "zh", "tagged"),
    ],
)
def test_formats_are_detected(write, name, content, lang, kind):
    assert detect_format(write(content, name), lang, ReadOptions()) == kind


def test_segmented_corpus(shared_data, zh):
    path = shared_data / "cws_udc" / "dev.txt"
    report = ReadReport()
    docs = list(read_docs(path, zh, report=report))
    assert (report.format, len(docs), report.n_tokens) == ("seg", 500, 12663)
    assert [doc.text for doc in docs] == [line.replace(" ", "") for line in path.read_text("utf8").splitlines()]
