"""What a recognizer gets wrong, and how: errors paired with the gold entity they should have been."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .scored import Gold, Predicted, ScoredDoc

BOUNDARY, LABEL, BOTH, MISSED, SPURIOUS = "boundary", "label", "label and boundary", "missed", "spurious"
KINDS = (BOUNDARY, LABEL, BOTH, MISSED, SPURIOUS)


@dataclass(frozen=True)
class Mistake:
    """An error.

    kind (str): One of `KINDS`.
    doc (int): Position of the document.
    gold (Gold | None): The gold entity; None if there is none.
    predicted (Predicted | None): What was predicted; None if nothing was.
    gold_prob (float | None): The probability that the model gives the gold entity.
    """

    kind: str
    doc: int
    gold: Gold | None
    predicted: Predicted | None
    gold_prob: float | None


@dataclass
class LabelCounts:
    """What became of the entities of a label.

    n_gold (int): Gold entities.
    n_predicted (int): Predicted ones.
    n_right (int): Predicted ones that are right.
    n_overlap_gold (int): Gold entities that overlap a predicted one of their label.
    n_overlap_predicted (int): Predicted ones that overlap a gold one of their label.
    kinds (Counter): Errors by kind: under the gold label, spurious ones under the predicted.
    """

    n_gold: int = 0
    n_predicted: int = 0
    n_right: int = 0
    n_overlap_gold: int = 0
    n_overlap_predicted: int = 0
    kinds: Counter[str] = field(default_factory=Counter)

    @property
    def exact(self) -> tuple[float, float, float]:
        """RETURNS (tuple): Precision, recall and F1 of exact matches."""
        return _prf(self.n_right, self.n_predicted, self.n_right, self.n_gold)

    @property
    def partial(self) -> tuple[float, float, float]:
        """RETURNS (tuple): Precision, recall and F1 if any overlap with the right label counts."""
        return _prf(self.n_overlap_predicted, self.n_predicted, self.n_overlap_gold, self.n_gold)

    def add(self, other: "LabelCounts") -> None:
        """Add up.

        other (LabelCounts): Further counts.
        """
        self.n_gold += other.n_gold
        self.n_predicted += other.n_predicted
        self.n_right += other.n_right
        self.n_overlap_gold += other.n_overlap_gold
        self.n_overlap_predicted += other.n_overlap_predicted
        self.kinds += other.kinds


def _prf(found: int, n_predicted: int, hit: int, n_gold: int) -> tuple[float, float, float]:
    precision = found / n_predicted if n_predicted else 0.0
    recall = hit / n_gold if n_gold else 0.0
    return precision, recall, 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def overlaps(one: Gold | Predicted, other: Gold | Predicted) -> int:
    """Count the characters that two entities share.

    one (Gold | Predicted): An entity.
    other (Gold | Predicted): Another one.
    RETURNS (int): Number of characters, at most 0 if there are none.
    """
    return min(one.end, other.end) - max(one.start, other.start)


def find_mistakes(docs: Iterable[ScoredDoc], threshold: float = 0.0) -> list[Mistake]:
    """Find all errors.

    docs (Iterable[ScoredDoc]): The documents.
    threshold (float): Predicted entities that are less probable do not count.
    RETURNS (list[Mistake]): The errors, in order. Where annotation is missing there are none.
    """
    return [mistake for i, doc in enumerate(docs) for mistake in _find_in_doc(i, doc, threshold)]


def keep_predicted(doc: ScoredDoc, threshold: float) -> list[Predicted]:
    """List the predicted entities that count.

    doc (ScoredDoc): The document.
    threshold (float): The least probability.
    RETURNS (list[Predicted]): Those at least so probable, where the annotation is known.
    """
    likely = (ent for ent in doc.predicted if ent.prob is None or ent.prob >= threshold)
    return [ent for ent in likely if doc.is_known(ent.start, ent.end)]


def _find_in_doc(index: int, doc: ScoredDoc, threshold: float) -> Iterator[Mistake]:
    gold_set = set(doc.gold)
    predicted = keep_predicted(doc, threshold)
    right = {ent.as_gold for ent in predicted} & gold_set
    open_gold = [gold for gold in doc.gold if gold not in right]
    probs = dict(zip(doc.gold, doc.gold_probs, strict=True))
    paired: set[Gold] = set()
    for ent in predicted:
        if ent.as_gold in right:
            continue
        gold = max(open_gold, key=lambda gold: overlaps(ent, gold), default=None)
        if gold is None or overlaps(ent, gold) <= 0:
            yield Mistake(SPURIOUS, index, None, ent, None)
            continue
        paired.add(gold)
        is_same_span = ent[:2] == gold[:2]
        kind = LABEL if is_same_span else BOUNDARY if ent.label == gold.label else BOTH
        yield Mistake(kind, index, gold, ent, probs[gold])
    for gold in open_gold:
        if gold not in paired:
            yield Mistake(MISSED, index, gold, None, probs[gold])


def count_labels(docs: Iterable[ScoredDoc], mistakes: Iterable[Mistake], threshold: float) -> dict[str, LabelCounts]:
    """Count what became of the entities of each label.

    docs (Iterable[ScoredDoc]): The documents.
    mistakes (Iterable[Mistake]): Their errors.
    threshold (float): Predicted entities that are less probable do not count.
    RETURNS (dict[str, LabelCounts]): By label, sorted.
    """
    counts: dict[str, LabelCounts] = {}
    for doc in docs:
        gold_set, predicted = set(doc.gold), keep_predicted(doc, threshold)
        for gold in doc.gold:
            entry = counts.setdefault(gold.label, LabelCounts())
            entry.n_gold += 1
            entry.n_overlap_gold += any(ent.label == gold.label and overlaps(ent, gold) > 0 for ent in predicted)
        for ent in predicted:
            entry = counts.setdefault(ent.label, LabelCounts())
            entry.n_predicted += 1
            entry.n_right += ent.as_gold in gold_set
            is_near = any(ent.label == gold.label and overlaps(ent, gold) > 0 for gold in doc.gold)
            entry.n_overlap_predicted += is_near
    for mistake in mistakes:
        source = mistake.gold or mistake.predicted
        if source is not None:
            counts.setdefault(source.label, LabelCounts()).kinds[mistake.kind] += 1
    return dict(sorted(counts.items()))


def count_confusion(
    docs: Iterable[ScoredDoc], mistakes: Iterable[Mistake], threshold: float
) -> Counter[tuple[str, str]]:
    """Count which label was predicted for which.

    docs (Iterable[ScoredDoc]): The documents.
    mistakes (Iterable[Mistake]): Their errors.
    threshold (float): Predicted entities that are less probable do not count.
    RETURNS (Counter): By gold and predicted label, "" for no entity. What overlaps is a pair.
    """
    pairs: Counter[tuple[str, str]] = Counter()
    for doc in docs:
        right = {ent.as_gold for ent in keep_predicted(doc, threshold)} & set(doc.gold)
        pairs.update((gold.label, gold.label) for gold in right)
    for mistake in mistakes:
        gold = mistake.gold.label if mistake.gold else ""
        pairs[gold, mistake.predicted.label if mistake.predicted else ""] += 1
    return pairs


def trace_threshold(docs: Iterable[ScoredDoc], n_points: int = 101) -> list[tuple[float, float, float]]:
    """Find precision and recall at thresholds from 0 to 1.

    docs (Iterable[ScoredDoc]): The documents.
    n_points (int): Number of thresholds.
    RETURNS (list[tuple]): Threshold, precision and recall; precision is 1 where nothing is predicted.
    """
    docs = list(docs)
    n_gold = sum(len(doc.gold) for doc in docs)
    found = sorted(
        (1.0 if ent.prob is None else ent.prob, ent.as_gold in gold)
        for doc in docs
        for gold in (set(doc.gold),)
        for ent in keep_predicted(doc, 0.0)
    )
    points = []
    first, n_right, n_found = 0, sum(is_right for _, is_right in found), len(found)
    for i in range(n_points):
        threshold = i / (n_points - 1)
        while first < len(found) and found[first][0] < threshold:
            n_right -= found[first][1]
            n_found -= 1
            first += 1
        points.append((threshold, n_right / n_found if n_found else 1.0, n_right / n_gold if n_gold else 0.0))
    return points
