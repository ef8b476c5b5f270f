"""The Chinese corpus is what its README says."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "assets" / "zh"
README = (FOLDER / "README.md").read_text(encoding="utf8")
SPLITS = ("train", "dev", "test")
LABELS = ("PERSON", "ORG", "GPE", "DATE", "PRODUCT")


def read_segmented(split):
    return [line.split(" ") for line in (FOLDER / f"{split}.txt").read_text(encoding="utf8").splitlines()]


def read_tagged(split):
    blocks = (FOLDER / f"{split}.iob").read_text(encoding="utf8").strip("\n").split("\n\n")
    return [[tuple(line.split("\t")) for line in block.split("\n")] for block in blocks]


def count(split):
    """A row of the README's table of counts."""
    sentences, tagged = read_segmented(split), read_tagged(split)
    begins = [[tag[2:] for _, tag in sentence if tag[0] == "B"] for sentence in tagged]
    labels = [label for sentence in begins for label in sentence]
    n_words = sum(map(len, sentences))
    n_characters = sum(len(word) for words in sentences for word in words)
    n_empty = begins.count([])
    return [len(sentences), n_words, n_characters, n_empty, len(labels), *map(labels.count, LABELS)]


def stated(split):
    (row,) = re.findall(rf"^\| {split} \|(.+)\|$", README.split("## Counts")[1].split("###")[0], flags=re.MULTILINE)
    return [int(re.match(r"\d+", cell.strip())[0]) for cell in row.split("|")]


@pytest.mark.parametrize("split", SPLITS)
def test_the_counts_are_right(split):
    assert stated(split) == count(split)


def test_it_is_large_enough_to_train_on():
    rows = [count(split) for split in SPLITS]
    assert stated("all") == [sum(column) for column in zip(*rows, strict=True)]
    assert stated("all")[0] >= 400


@pytest.mark.parametrize("split", SPLITS)
def test_both_files_hold_the_same_words(split):
    tagged = read_tagged(split)
    assert [[word for word, _ in sentence] for sentence in tagged] == read_segmented(split)
    for sentence in tagged:
        before = "O"
        for word, tag in sentence:
            assert word
            assert not word.isspace()
            assert re.fullmatch(rf"O|[BI]-({'|'.join(LABELS)})", tag)
            assert tag[0] != "I" or before[2:] == tag[2:]
            before = tag


def test_no_sentence_is_there_twice():
    sentences = ["".join(words) for split in SPLITS for words in read_segmented(split)]
    assert len(set(sentences)) == len(sentences)
