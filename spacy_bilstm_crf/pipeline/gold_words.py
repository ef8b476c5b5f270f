"""The words of a reference, as borders between the tokens of the predicted document."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from spacy.attrs import IDX, IS_SPACE
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import minibatch

from ..errors import Errors
from ..types import BORDERS_KEY, BoolArray
from .borders import BORDER, JOINED, UNKNOWN, Borders


@dataclass
class GoldWords:
    """What references say about words.

    borders (Borders): On the tokens of the predicted documents.
    n_lost (int): Borders that fall inside of a token and cannot be learnt.
    """

    borders: Borders
    n_lost: int


def read_gold_words(examples: Sequence[Example]) -> GoldWords:
    """Read the words of references, or single borders where `user_data` has the key for them.

    examples (Sequence[Example]): The examples.
    RETURNS (GoldWords): What is known.
    RAISES (ValueError): CRF330 if single borders are not written as expected.
    """
    lengths = numpy.fromiter((len(eg.predicted) for eg in examples), dtype="int64", count=len(examples))
    parts, n_lost = [numpy.zeros(0, dtype="int64")], 0
    for example in examples:
        states, lost = _read_single_borders(example) if _has_single_borders(example) else _read_words(example)
        parts.append(states)
        n_lost += lost
    return GoldWords(Borders(numpy.concatenate(parts), lengths), n_lost)


def segmented_batches(examples: Iterable[Example], *, size: int = 1000) -> Iterator[tuple[list[Doc], BoolArray]]:
    """Read the words of many references, of those that know all of them.

    examples (Iterable[Example]): The examples.
    size (int): Number of examples that are read at once.
    YIELDS (tuple): Predicted documents, and which of all their tokens begin a word.
        (n_tokens,) bool
    """
    for batch in minibatch(examples, size):
        known = [example for example in batch if not _has_single_borders(example)]
        yield [example.predicted for example in known], read_gold_words(known).borders.states == BORDER


def _has_single_borders(example: Example) -> bool:
    return BORDERS_KEY in example.reference.user_data


def _read_words(example: Example) -> tuple[Any, int]:
    predicted, reference = example.predicted, example.reference
    is_word = reference.to_array([IS_SPACE]).reshape(-1) == 0
    if predicted.text == reference.text:
        offsets, gold_offsets = predicted.to_array([IDX]), reference.to_array([IDX])
        is_border = numpy.isin(offsets, gold_offsets)
        is_lost = is_word & ~numpy.isin(gold_offsets, offsets)
    else:
        is_border, is_found = _align_words(example)
        is_lost = is_word & ~is_found
    return numpy.where(is_border, BORDER, JOINED), int(is_lost.sum())


def _align_words(example: Example) -> tuple[BoolArray, BoolArray]:
    """Find the tokens that words begin with where the texts differ, e.g. in white space."""
    words_of, tokens_of = example.alignment.x2y, example.alignment.y2x
    is_border = numpy.zeros(len(example.predicted), dtype=bool)
    is_found = numpy.zeros(len(example.reference), dtype=bool)
    for word, n_tokens in enumerate(tokens_of.lengths.tolist()):
        if n_tokens:
            first = int(tokens_of[word][0])
            # A token that begins with another word holds the border.
            is_found[word] = int(words_of[first][0]) == word
            is_border[first] |= is_found[word]
    return is_border, is_found


def _read_single_borders(example: Example) -> tuple[Any, int]:
    """Read pairs of an offset in the reference's text and whether a word begins there."""
    predicted, reference = example.predicted, example.reference
    known = _check_borders(reference)
    if predicted.text != reference.text:
        raise ValueError(
            Errors.CRF331.format(key=BORDERS_KEY, predicted=predicted.text[:40], reference=reference.text[:40])
        )
    tokens = {offset: token for token, offset in enumerate(predicted.to_array([IDX]).tolist())}
    states = numpy.full(len(predicted), UNKNOWN)
    for offset, is_border in known.items():
        if offset in tokens:
            states[tokens[offset]] = BORDER if is_border else JOINED
    n_lost = sum(
        is_border and offset not in tokens and 0 < offset < len(predicted.text) for offset, is_border in known.items()
    )
    return states, n_lost


def _check_borders(reference: Doc) -> dict[int, bool]:
    """Return the single borders of a reference, and complain if they are not pairs of an offset and a bool."""
    pairs = reference.user_data[BORDERS_KEY]
    try:
        known = dict(pairs)
        is_valid = all(isinstance(is_border, bool) for is_border in known.values())
        is_valid = is_valid and all(type(offset) is int and 0 <= offset <= len(reference.text) for offset in known)
        # A place where a word begins and does not.
        is_valid = is_valid and (isinstance(pairs, dict) or all(known[offset] == is_it for offset, is_it in pairs))
    except (TypeError, ValueError):
        is_valid = False
    if not is_valid:
        raise ValueError(Errors.CRF330.format(key=BORDERS_KEY, length=len(reference.text), value=repr(pairs)[:80]))
    return known
