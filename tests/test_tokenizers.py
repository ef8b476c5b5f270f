"""The tokenizer of units, inside of pipelines."""

import pickle

import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.training import Example

from spacy_bilstm_crf.tokenizers import CharacterTokenizer

CONFIG = {"nlp": {"tokenizer": {"@tokenizers": "spacy-bilstm-crf.CharacterTokenizer.v1"}}}
NLP = spacy.blank("xx", config=CONFIG)


def test_a_config_names_it():
    assert isinstance(NLP.tokenizer, CharacterTokenizer)
    assert [token.text for token in spacy.blank("zh", config=CONFIG)("他用iPhone 12。")] == [
        *("他", "用", "i", "Phone", "12", "。")
    ]


@given(st.text())
def test_docs_give_the_text_back(text):
    doc = NLP.make_doc(text)
    assert doc.text == text
    assert not doc.has_unknown_spaces
    assert [token.idx for token in doc] == [text.index(token.text, token.idx) for token in doc]


def test_white_space_is_kept_as_spacy_keeps_it():
    doc = NLP.make_doc("a  b \n中")
    assert [(token.text, token.whitespace_) for token in doc] == [
        ("a", " "),
        (" ", ""),
        ("b", " "),
        ("\n", ""),
        ("中", ""),
    ]
    assert [token.is_space for token in doc] == [False, True, False, True, False]


def test_it_is_stored_with_the_pipeline(tmp_path):
    NLP.to_disk(tmp_path)
    for loaded in (
        spacy.load(tmp_path),
        spacy.blank("xx", config=CONFIG).from_bytes(NLP.to_bytes()),
        pickle.loads(pickle.dumps(NLP)),
    ):
        assert [token.text for token in loaded("中文abc")] == ["中", "文", "abc"]


def test_it_can_stand_before_an_entity_recognizer():
    nlp = spacy.blank("zh", config=CONFIG)
    doc = nlp.make_doc("他在中国。")
    reference = nlp.make_doc(doc.text)
    reference.ents = [reference.char_span(2, 4, label="GPE")]
    nlp.add_pipe("ner_crf", config={"tag_scheme": "BMES"})
    nlp.initialize(lambda: [Example(doc, reference)])
    assert nlp.get_pipe("ner_crf").tags == ["O", "B-GPE", "M-GPE", "E-GPE", "S-GPE"]
    assert nlp(doc.text).text == doc.text
