"""Kinds of error, and counts of them beside spaCy's scorer."""

import pytest

from spacy_bilstm_crf.report.mistakes import count_confusion, count_labels, find_mistakes, trace_threshold
from spacy_bilstm_crf.report.scored import Gold, Predicted, ScoredDoc


def make_doc(gold, predicted, unknown=()):
    golds = [Gold(*span) for span in gold]
    return ScoredDoc("x" * 50, golds, [0.5] * len(golds), [Predicted(*span) for span in predicted], list(unknown))


@pytest.mark.parametrize(
    ("gold", "predicted", "kinds"),
    [
        ([(0, 5, "A")], [(0, 5, "A", 0.9)], []),
        ([(0, 5, "A")], [(0, 7, "A", 0.9)], ["boundary"]),
        ([(0, 5, "A")], [(0, 5, "B", 0.9)], ["label"]),
        ([(0, 5, "A")], [(2, 7, "B", 0.9)], ["label and boundary"]),
        ([(0, 5, "A")], [], ["missed"]),
        ([], [(0, 5, "A", 0.9)], ["spurious"]),
        ([(0, 5, "A")], [(5, 7, "A", 0.9)], ["spurious", "missed"]),
        ([(0, 9, "A")], [(0, 2, "A", 0.9), (4, 9, "A", 0.9)], ["boundary", "boundary"]),
        ([(0, 4, "A"), (5, 9, "A")], [(0, 9, "A", 0.9)], ["boundary", "missed"]),
        ([(0, 4, "A"), (5, 9, "A")], [(0, 4, "A", 0.9), (5, 8, "B", 0.2)], ["label and boundary"]),
    ],
)
def test_kinds(gold, predicted, kinds):
    assert [mistake.kind for mistake in find_mistakes([make_doc(gold, predicted)])] == kinds


def test_what_is_not_annotated_is_no_error():
    doc = make_doc([(0, 5, "A")], [(0, 5, "A", 0.9), (8, 12, "B", 0.9)], unknown=[(10, 12)])
    assert find_mistakes([doc]) == []
    assert count_labels([doc], [], 0.0)["A"].n_predicted == 1


def test_what_is_below_the_threshold_was_not_predicted():
    doc = make_doc([(0, 5, "A")], [(0, 5, "A", 0.4), (8, 12, "B", 0.9), (20, 22, "B", None)])
    assert [mistake.kind for mistake in find_mistakes([doc], 0.5)] == ["spurious", "spurious", "missed"]
    assert [mistake.kind for mistake in find_mistakes([doc], 0.95)] == ["spurious", "missed"]


def test_counts_of_a_label():
    docs = [
        make_doc([(0, 5, "A"), (10, 15, "A")], [(0, 5, "A", 0.9), (11, 15, "A", 0.8), (20, 22, "A", 0.1)]),
        make_doc([(0, 5, "B")], [(0, 5, "A", 0.3)]),
    ]
    counts = count_labels(docs, find_mistakes(docs), 0.0)
    assert counts["A"].exact == pytest.approx((1 / 4, 1 / 2, 1 / 3))
    assert counts["A"].partial == pytest.approx((2 / 4, 2 / 2, 2 / 3))
    assert dict(counts["A"].kinds) == {"boundary": 1, "spurious": 1}
    assert dict(counts["B"].kinds) == {"label": 1}
    assert counts["B"].exact == (0.0, 0.0, 0.0)


def test_confusion_counts_each_gold_entity_and_what_was_made_up():
    docs = [
        make_doc([(0, 5, "A"), (10, 15, "A")], [(0, 5, "A", 0.9), (11, 15, "B", 0.8), (20, 22, "A", 0.1)]),
        make_doc([(0, 5, "B")], []),
    ]
    pairs = count_confusion(docs, find_mistakes(docs), 0.0)
    assert pairs == {("A", "A"): 1, ("A", "B"): 1, ("", "A"): 1, ("B", ""): 1}


def test_precision_and_recall_over_the_threshold():
    doc = make_doc([(0, 5, "A"), (10, 15, "A")], [(0, 5, "A", 0.9), (11, 15, "A", 0.5)])
    points = trace_threshold([doc], n_points=11)
    assert points[0] == (0.0, 0.5, 0.5)
    assert points[5] == (0.5, 0.5, 0.5)
    assert points[6] == (0.6, 1.0, 0.5)
    assert points[10] == (1.0, 1.0, 0.0)
    assert trace_threshold([])[0] == (0.0, 1.0, 0.0)
