"""What a corpus holds, and what in it a recognizer cannot use or will stumble over."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from spacy.tokens import Span
from spacy.training import Example

from ..pipeline.annotation import TagSet, find_labels, read_gold, tokens_match
from ..pipeline.negative import read_incorrect_spans
from ..tag_scheme import TagScheme, check_label
from ..types import LABELS_KEY, TAGS_KEY, AllowedTransitions

# Findings that stop a training; the others are read as missing annotation, or are worth a look.
ERRORS = {
    "label": "labels that the component refuses",
    "conflict": "incorrect spans that are entities of the same document",
    "user_data": "documents whose single tags or label sets cannot be read",
}
WARNINGS = {
    "misaligned": "entities that do not fall on the tokens of the pipeline",
    "space": "entities that begin or end on white space",
    "crossing": "entities that cross a sentence start",
    "adjacent": "adjacent entities of one label, which become one in the scheme IO",
    "impossible": "documents with single tags that no tag path has",
    "misaligned_incorrect": "incorrect spans that do not fall on the tokens of the pipeline",
    "unknown_incorrect": "incorrect spans of a label that no entity has",
    "contradiction": "texts that occur several times, annotated differently",
}


@dataclass
class CorpusCheck:
    """Counts and findings of one corpus.

    scheme (TagScheme): The tag scheme of the component.
    incorrect_spans_key (str | None): Where its incorrect spans are.
    n_docs (int): Documents.
    n_unannotated (int): Documents without any annotation.
    n_partial (int): Documents annotated in part.
    n_incorrect (int): Spans known to be no entities.
    doc_lengths (Counter): Documents by their number of tokens.
    entity_lengths (Counter): Entities by their number of tokens.
    labels (Counter): Entities by label.
    tag_labels (set): Labels of single tags.
    n_missing (int): Tokens without annotation.
    texts (dict): The annotations of each text.
    findings (dict): Examples of each finding, by its key in `ERRORS` or `WARNINGS`.
    """

    scheme: TagScheme
    incorrect_spans_key: str | None = None
    n_docs: int = 0
    n_unannotated: int = 0
    n_partial: int = 0
    n_incorrect: int = 0
    doc_lengths: Counter[int] = field(default_factory=Counter)
    entity_lengths: Counter[int] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    tag_labels: set[str] = field(default_factory=set)
    n_missing: int = 0
    texts: dict[str, list[frozenset]] = field(default_factory=lambda: defaultdict(list))
    findings: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def n_tokens(self) -> int:
        """RETURNS (int): Number of tokens."""
        return sum(length * n for length, n in self.doc_lengths.items())

    def add_all(self, examples: Iterable[Example]) -> "CorpusCheck":
        """Look at all examples of a corpus.

        examples (Iterable[Example]): The examples.
        RETURNS (CorpusCheck): This object.
        """
        examples = list(examples)
        for example in examples:
            self.tag_labels |= find_labels(example.reference)
        tag_set = self._tag_set(examples)
        for example in examples:
            self._count(example)
            self._check_entities(example)
            if self.incorrect_spans_key:
                self._check_incorrect_spans(example, self.incorrect_spans_key)
            if TAGS_KEY in example.reference.user_data or LABELS_KEY in example.reference.user_data:
                self._check_user_data(example, tag_set)
        for label in sorted(self.tag_labels):
            self._check_label(label)
        for text, annotations in self.texts.items():
            if len(set(annotations)) > 1:
                self.findings["contradiction"].append(f"{text[:80]!r}, {len(annotations)} times")
        return self

    def _tag_set(self, examples: list[Example]) -> TagSet:
        labels = tuple(sorted(self.tag_labels))
        strings = examples[0].reference.vocab.strings if examples else None
        hashes = tuple(strings.as_int(label) for label in labels) if strings is not None else ()
        legal = AllowedTransitions(*self.scheme.allowed_transitions(labels))
        return TagSet(self.scheme, labels, hashes, legal)

    def _count(self, example: Example) -> None:
        reference = example.reference
        n_missing = sum(token.ent_iob == 0 for token in reference)
        has_key = TAGS_KEY in reference.user_data or LABELS_KEY in reference.user_data
        self.n_docs += 1
        self.doc_lengths[len(example.predicted)] += 1
        self.n_missing += n_missing
        if n_missing == len(reference) and not has_key:
            self.n_unannotated += bool(len(reference))
        elif n_missing or has_key:
            self.n_partial += 1
        for ent in reference.ents:
            self.labels[ent.label_] += 1
            self.entity_lengths[len(ent)] += 1
        annotation = frozenset((ent.start_char, ent.end_char, ent.label_) for ent in reference.ents)
        if not n_missing and not has_key:
            self.texts[reference.text].append(annotation)
        else:
            self.texts[reference.text]

    def _check_entities(self, example: Example) -> None:
        is_same, is_io = tokens_match(example), self.scheme.name == "IO"
        previous: Span | None = None
        for ent in example.reference.ents:
            if not is_same and not example.get_aligned_spans_y2x([ent]):
                self.findings["misaligned"].append(f"{_show(ent)}, tokens here: {_tokens_around(example, ent)}")
            if ent[0].is_space or ent[-1].is_space:
                self.findings["space"].append(_show(ent))
            if any(token.is_sent_start for token in ent[1:]):
                self.findings["crossing"].append(_show(ent))
            if previous is not None and (previous.end, previous.label) == (ent.start, ent.label) and is_io:
                self.findings["adjacent"].append(f"{_show(previous)} and {_show(ent)}")
            previous = ent

    def _check_incorrect_spans(self, example: Example, key: str) -> None:
        spans = [span for span in example.reference.spans.get(key, ()) if len(span)]
        self.n_incorrect += len(spans)
        try:
            read_incorrect_spans(example, key)
        except ValueError as error:
            self.findings["conflict"].append(str(error))
        for span in spans:
            if not tokens_match(example) and not example.get_aligned_spans_y2x([span]):
                self.findings["misaligned_incorrect"].append(_show(span))
            if span.label_ not in self.tag_labels:
                self.findings["unknown_incorrect"].append(_show(span))

    def _check_user_data(self, example: Example, tag_set: TagSet) -> None:
        try:
            gold = read_gold([example], tag_set, None)
        except ValueError as error:
            self.findings["user_data"].append(str(error))
            return
        if gold.n_unusable_tags:
            tags = example.reference.user_data.get(TAGS_KEY, ())
            words = zip(example.reference, tags, strict=False)
            shown = " ".join(f"{token.text}/{tag or '?'}" for token, tag in words)
            self.findings["impossible"].append(shown[:160])

    def _check_label(self, label: str) -> None:
        try:
            check_label(label)
        except ValueError as error:
            self.findings["label"].append(str(error))


def leaked_texts(train: CorpusCheck, dev: CorpusCheck) -> list[str]:
    """List texts that are in both corpora.

    train (CorpusCheck): One corpus.
    dev (CorpusCheck): The other one.
    RETURNS (list[str]): The texts, in the order of the second corpus.
    """
    return [text for text in dev.texts if text.strip() and text in train.texts]


def _show(span: Span) -> str:
    doc = span.doc
    context = doc[max(0, span.start - 3) : min(len(doc), span.end + 3)]
    return f"{span.text!r} ({span.label_ or 'no label'}) in {context.text!r}"


def _tokens_around(example: Example, span: Span) -> list[str]:
    indices = sorted({int(i) for i in example.alignment.y2x[span.start : span.end]})
    return [example.predicted[i].text for i in indices]
