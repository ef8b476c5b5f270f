"""Scores of word segmentation."""

import pytest
import spacy
from spacy.scorer import Scorer
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import registry

from spacy_bilstm_crf.scorers import score_segmentation

VOCAB = spacy.blank("xx").vocab


def make_example(predicted, reference, **kwargs):
    docs = [Doc(VOCAB, words=text.split(), spaces=[False] * len(text.split())) for text in (predicted, reference)]
    return Example(*docs)


EXAMPLES = [make_example("我们 喜 欢 书", "我们 喜欢 书"), make_example("大 书 \n 好", "大书 \n 好")]


def test_words_are_scored_as_spacy_scores_tokens():
    scores = score_segmentation(EXAMPLES)
    assert {name: scores.pop(name) for name in Scorer.score_tokenization(EXAMPLES)} == Scorer.score_tokenization(
        EXAMPLES
    )
    assert scores == {"token_oov_r": None}
    # 3 of 7 predicted words, 3 of 5 in the references; white space is none.
    assert Scorer.score_tokenization(EXAMPLES)["token_f"] == pytest.approx(2 * 3 / (7 + 5))


@pytest.mark.parametrize(
    ("known", "recall"),
    [
        ([], 3 / 5),
        (["我们", "书"], 1 / 3),
        (["我们", "书", "好"], 0.0),
        (["我们", "喜欢", "书", "大书", "好"], None),
    ],
)
def test_recall_of_words_that_were_not_seen(known, recall):
    assert score_segmentation(EXAMPLES, known_words=known)["token_oov_r"] == recall


def test_references_without_spaces_do_not_count():
    reference = Doc(VOCAB, words=["我们", "好"])
    scores = score_segmentation([Example(Doc(VOCAB, words=["我们", "好"]), reference)], known_words=[])
    assert scores == dict.fromkeys(["token_acc", "token_p", "token_r", "token_f", "token_oov_r"])


def test_configs_name_it():
    make = registry.scorers.get("spacy-bilstm-crf.segmentation_scorer.v1")
    assert make()(EXAMPLES, known_words=[], labels=("B",), threshold=0.5)["token_oov_r"] == 3 / 5
