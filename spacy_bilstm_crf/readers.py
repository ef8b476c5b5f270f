"""Corpus readers for corpora that were annotated with different labels."""

from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import Any

from spacy.language import Language
from spacy.training import Example

from .types import LABELS_KEY

Corpus = Callable[[Language], Iterable[Example]]


def make_annotated_labels_v1(corpus: Corpus, labels: list[str]) -> Corpus:
    """Say which labels a corpus was annotated for. Registered as `spacy-bilstm-crf.annotated_labels.v1`.

    Other labels are unknown in it: where it has no entity, there may be one of theirs.

    corpus (Callable): Another corpus reader, such as `spacy.Corpus.v1`.
    labels (list[str]): The labels.
    RETURNS (Callable): A corpus whose references hold the labels in `doc.user_data["crf_labels"]`.
    """

    def read(nlp: Language) -> Iterator[Example]:
        for example in corpus(nlp):
            example.reference.user_data[LABELS_KEY] = list(labels)
            yield example

    return read


def make_merged_corpora_v1(corpora: dict[str, Any]) -> Corpus:
    """Read several corpora as one. Registered as `spacy-bilstm-crf.merged_corpora.v1`.

    corpora (dict[str, Callable]): Corpus readers by any names. (As a type hint, a config could not fill it in.)
    RETURNS (Callable): A corpus that takes an example from each in turn, until all have ended.
    """

    def read(nlp: Language) -> Iterator[Example]:
        for examples in zip_longest(*(corpus(nlp) for corpus in corpora.values())):
            yield from (example for example in examples if example is not None)

    return read
