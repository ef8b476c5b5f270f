"""Scorers, for `[components.*.scorer]`."""

from collections.abc import Callable, Collection, Iterable
from typing import Any

from spacy.scorer import Scorer
from spacy.training import Example

Scores = dict[str, Any]


def make_segmentation_scorer_v1() -> Callable[..., Scores]:
    """Make a scorer of word segmentation. Registered as `spacy-bilstm-crf.segmentation_scorer.v1`.

    RETURNS (Callable): `score_segmentation`.
    """
    return score_segmentation


def score_segmentation(
    examples: Iterable[Example], *, known_words: Collection[str] | None = None, **kwargs: Any
) -> Scores:
    """Score words: spaCy's scores of tokens, and the recall of words that were not in the training data.

    examples (Iterable[Example]): The examples. References whose spaces are not known do not count.
    known_words (Collection[str] | None): The words of the training data.
    **kwargs (Any): What else spaCy hands to scorers; not used.
    RETURNS (dict): `token_acc`, `token_p`, `token_r` and `token_f` as in `Scorer.score_tokenization`, and
        `token_oov_r`, None without `known_words` or where there are no unknown words.
    """
    examples = list(examples)
    scores = Scorer.score_tokenization(examples)
    scores["token_oov_r"] = None if known_words is None else _recall_of_unknown(examples, frozenset(known_words))
    return scores


def _recall_of_unknown(examples: list[Example], known_words: frozenset[str]) -> float | None:
    n_unknown = n_found = 0
    for example in examples:
        if example.reference.has_unknown_spaces:
            continue
        predicted = {(token.idx, token.idx + len(token)) for token in example.predicted}
        for token in example.reference:
            if token.text not in known_words and not token.is_space:
                n_unknown += 1
                n_found += (token.idx, token.idx + len(token)) in predicted
    return n_found / n_unknown if n_unknown else None
