"""Words of references, read as borders between the tokens of predicted documents."""

import re

import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example
from tiny_segmenters import TOKENIZER, make_words

from spacy_bilstm_crf.pipeline.gold_words import read_gold_words
from spacy_bilstm_crf.types import BORDERS_KEY

NLP = spacy.blank("xx", config={"nlp": {"tokenizer": TOKENIZER}})


def read(predicted, reference):
    gold = read_gold_words([Example(predicted, reference)])
    return "".join("?-|"[state] for state in gold.borders.states), gold.n_lost


@pytest.mark.parametrize(
    ("sentence", "states", "n_lost"),
    [
        ("我们 喜欢 书", "|-|-|", 0),
        ("书", "|", 0),
        ("", "", 0),
        ("2024年 的 Walter Damrosch", "|-|||", 0),
        ("20 24 年", "||", 1),
        ("a bc 书 ab c", "|||", 2),
    ],
)
def test_words_are_read(sentence, states, n_lost):
    reference = make_words(NLP, sentence)
    assert read(NLP.make_doc(reference.text), reference) == (states, n_lost)


@pytest.mark.parametrize(
    ("text", "words", "states"),
    [
        ("我们 喜欢书", ["我们", "喜欢", "书"], "|-|-|"),
        # White space is not what words are made of: what is read there does not matter.
        ("我们喜欢书", ["我们", " ", "喜欢", "书"], "|-|-|"),
        ("我们\n喜欢书", ["我们", "喜欢书"], "|-.|--"),
        ("NBA球员", ["nba", "球员"], "||-"),
        ("NBA球员", ["nb", "a球", "员"], "|-|"),
    ],
)
def test_words_are_aligned_where_texts_differ(text, words, states):
    found, n_lost = read(NLP.make_doc(text), Doc(NLP.vocab, words=words, spaces=[False] * len(words)))
    assert re.fullmatch(states.replace("|", "\\|"), found)
    assert n_lost == (words[0] == "nb")


def with_borders(text, borders):
    reference = NLP.make_doc(text)
    reference.user_data[BORDERS_KEY] = borders
    return reference


@pytest.mark.parametrize(
    ("borders", "states", "n_lost"),
    [
        ([], "|????", 0),
        ([[2, True], [3, False]], "|?|-?", 0),
        ([(0, True), (4, True), (6, True)], "|???|", 0),
        # Inside of the last token.
        ([[5, True]], "|????", 1),
        ([[5, False]], "|????", 0),
    ],
)
def test_single_borders_are_read(borders, states, n_lost):
    assert read(NLP.make_doc("甲乙丙丁ab"), with_borders("甲乙丙丁ab", borders)) == (states, n_lost)


def test_single_borders_survive_storage():
    reference = with_borders("甲乙丙丁", [(2, True), (3, False)])
    stored = Doc(NLP.vocab).from_bytes(reference.to_bytes())
    assert read(NLP.make_doc("甲乙丙丁"), stored) == ("|?|-", 0)


@pytest.mark.parametrize(
    "borders",
    [
        *(3, [1, 2], [[1, 2, 3]], [[1, 1]], [[9, True]], [[-1, True]], [["a", True]], "ab", [[None, True]]),
        *([[1.0, True]], [[True, True]], [[1, True], [1, False]]),
    ],
)
def test_what_is_no_list_of_borders_is_refused(borders):
    with pytest.raises(ValueError, match="CRF330"):
        read(NLP.make_doc("甲乙"), with_borders("甲乙", borders))


def test_borders_of_another_text_are_refused():
    with pytest.raises(ValueError, match="CRF331"):
        read(NLP.make_doc("甲乙"), with_borders("甲乙丙", []))


def test_a_batch_is_read_in_order():
    references = [make_words(NLP, "我们 好"), with_borders("甲乙", []), make_words(NLP, "好")]
    gold = read_gold_words([Example(NLP.make_doc(reference.text), reference) for reference in references])
    assert gold.borders.states.tolist() == [2, 1, 2, 2, 0, 2]
    assert gold.borders.lengths.tolist() == [3, 2, 1]
