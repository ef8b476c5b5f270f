"""What is known of word borders, as tags: against all ways to cut a text."""

import itertools

import numpy
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, Span
from tiny_segmenters import TOKENIZER

from spacy_bilstm_crf.pipeline.borders import BORDER, JOINED, UNKNOWN, Borders
from spacy_bilstm_crf.pipeline.character_batch import CharacterBatch
from spacy_bilstm_crf.tag_scheme import TagScheme

SCHEME = TagScheme("BMES", outside=False)
NLP = spacy.blank("xx", config={"nlp": {"tokenizer": TOKENIZER}})
STATES = st.lists(st.sampled_from([UNKNOWN, JOINED, BORDER]), max_size=5)


def make_borders(states, lengths=None):
    lengths = [len(states)] if lengths is None else lengths
    return Borders(numpy.array(states, dtype="int64"), numpy.array(lengths, dtype="int64"))


def all_paths(n_tokens):
    """Each way to cut n tokens into words: whether a word begins at each token, and the tags that say so."""
    for inner in itertools.product([False, True], repeat=max(n_tokens - 1, 0)):
        begins = [True, *inner][:n_tokens]
        ends = [*begins[1:], True][:n_tokens]
        yield (
            begins,
            [{(1, 1): 3, (1, 0): 0, (0, 0): 1, (0, 1): 2}[begin, end] for begin, end in zip(begins, ends, strict=True)],
        )


def agrees(begins, states):
    return all(
        state == UNKNOWN or (state == BORDER) == begin for begin, state in zip(begins[1:], states[1:], strict=True)
    )


@given(STATES)
def test_possible_tags_leave_the_paths_that_agree(states):
    borders = make_borders(states)
    possible = borders.possible_tags(SCHEME)
    for begins, tags in all_paths(len(states)):
        assert possible[range(len(tags)), tags].all() == agrees(begins, states)
    assert borders.is_informative() == any(state != UNKNOWN for state in states[1:])


@given(STATES)
def test_annotation_allows_the_same_paths(states):
    annotation = make_borders(states).annotation(SCHEME)
    everything = numpy.ones((len(states), 4), dtype=bool)
    vague = everything if annotation.allowed_tags is None else annotation.allowed_tags
    allowed = numpy.where(annotation.tags[:, None] >= 0, numpy.arange(4) == annotation.tags[:, None], vague)
    for begins, tags in all_paths(len(states)):
        assert allowed[range(len(tags)), tags].all() == agrees(begins, states)
    # What is unknown altogether is left open altogether.
    assert allowed.all() == all(state == UNKNOWN for state in states[1:]) or len(states) == 1


@given(STATES, STATES)
def test_documents_do_not_see_each_other(first, second):
    both = make_borders(first + second, [len(first), len(second)]).possible_tags(SCHEME)
    alone = [make_borders(states).possible_tags(SCHEME) for states in (first, second)]
    assert (both == numpy.concatenate(alone)).all()


@given(st.lists(st.tuples(*[st.sampled_from([UNKNOWN, JOINED, BORDER])] * 2), max_size=5))
def test_of_two_sources_the_stronger_one_counts(pairs):
    weak, strong = (make_borders([pair[i] for pair in pairs]) for i in (0, 1))
    expected = [two if two != UNKNOWN else one for one, two in pairs]
    assert weak.combine(strong).states[1:].tolist() == expected[1:]
    assert weak.count_contradictions(strong) == sum({one, two} == {JOINED, BORDER} for one, two in pairs[1:])


def text_borders(docs):
    return CharacterBatch.from_docs(docs).text_borders()


def preset_borders(docs, words_key):
    return CharacterBatch.from_docs(docs).preset_borders(words_key)


def states_of(borders):
    return "".join("?-|"[state] for state in borders.states)


@pytest.mark.parametrize(
    ("words", "spaces", "states"),
    [
        (["中", "文", "好"], [0, 0, 0], "|??"),
        (["中", "文", "好"], [0, 1, 0], "|?|"),
        (["中", " ", "文", "\n"], [0, 0, 0, 0], "||||"),
        (list("用iPad12台"), [0] * 8, "|??--?-?"),
        (["iPad", "12"], [0, 0], "|?"),
        (["e", "\u0301", "中", "\u0301"], [0, 0, 0, 0], "|-?-"),
        (["A", "B"], [1, 0], "||"),
        ([], [], ""),
    ],
)
def test_text_says_where_words_begin(words, spaces, states):
    spaces = [*map(bool, spaces), *[False] * (len(words) - len(spaces))]
    doc = Doc(NLP.vocab, words=words, spaces=spaces)
    assert states_of(text_borders([doc])) == states
    assert states_of(text_borders([doc, doc])) == states * 2


@given(st.text())
def test_text_says_nothing_against_the_tokenizer(text):
    assert JOINED not in text_borders([NLP.make_doc(text)]).states


def test_earlier_annotation_says_where_words_begin():
    doc = NLP.make_doc("甲乙丙丁戊己庚辛")
    doc.spans["words"] = [doc[1:3], doc[2:4], doc[3:5], doc[5:8]]
    assert states_of(preset_borders([doc], "words")) == "||-|-|--"
    assert states_of(preset_borders([doc], None)) == states_of(preset_borders([doc], "others")) == "|???????"
    doc.ents = [Span(doc, 2, 3, "A"), Span(doc, 6, 7, "B")]
    assert states_of(preset_borders([doc], None)) == "|?||??||"
    # Entities cut words that cross them.
    assert states_of(preset_borders([doc, doc], "words")) == "||||-|||" * 2
    doc.ents = []
    doc[4].is_sent_start = True
    assert states_of(preset_borders([doc], "words")) == "||-|||--"


def test_adjacent_entities_and_blocked_tokens():
    doc = NLP.make_doc("甲乙丙丁戊己")
    doc.set_ents([Span(doc, 0, 2, "A"), Span(doc, 2, 4, "A")], blocked=[doc[4:6]])
    assert states_of(preset_borders([doc], None)) == "|?|?|?"
