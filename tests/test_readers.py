from spacy.tokens import Doc, DocBin
from spacy.training import Corpus
from spacy.util import registry, resolve_dot_names
from thinc.api import Config

CONFIG = """
[corpora]

[corpora.train]
@readers = "spacy-bilstm-crf.merged_corpora.v1"

[corpora.train.corpora]

[corpora.train.corpora.people]
@readers = "spacy-bilstm-crf.annotated_labels.v1"
labels = ["PER"]

[corpora.train.corpora.people.corpus]
@readers = "spacy.Corpus.v1"
path = "people.spacy"
gold_preproc = false

[corpora.train.corpora.both]
@readers = "spacy.Corpus.v1"
path = "both.spacy"
gold_preproc = false
"""


def write_docs(path, nlp, ents, n_docs):
    docs = [Doc(nlp.vocab, words=["Anna", "in", "Rome", str(i)], ents=ents) for i in range(n_docs)]
    DocBin(docs=docs).to_disk(path)


def test_corpora_of_different_labels_are_read_from_a_config(nlp, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_docs("people.spacy", nlp, ["B-PER", "O", "O", "O"], 2)
    write_docs("both.spacy", nlp, ["B-PER", "O", "B-LOC", "O"], 4)
    config = Config().from_str(CONFIG)
    (corpus,) = resolve_dot_names(config, ["corpora.train"])
    for _ in range(2):  # a corpus can be read again
        references = [example.reference for example in corpus(nlp)]
        sizes = [len(doc.ents) for doc in references]
        assert sizes == [1, 2, 1, 2, 2, 2]
        assert [doc.user_data.get("crf_labels") for doc in references] == [["PER"], None, ["PER"], None, None, None]


def test_label_sets_reach_training(nlp, tmp_path):
    write_docs(tmp_path / "people.spacy", nlp, ["B-PER", "O", "O", "O"], 3)
    write_docs(tmp_path / "places.spacy", nlp, ["O", "O", "B-LOC", "O"], 3)
    annotated = registry.readers.get("spacy-bilstm-crf.annotated_labels.v1")
    merge = registry.readers.get("spacy-bilstm-crf.merged_corpora.v1")
    corpora = {
        label: annotated(Corpus(tmp_path / name), [label])
        for label, name in (("PER", "people.spacy"), ("LOC", "places.spacy"))
    }
    examples = list(merge(corpora)(nlp))
    nlp.add_pipe("ner_crf")
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(30):
        nlp.update(examples, sgd=optimizer)
    # Each corpus has one of the two entities only. Read as complete, they would contradict each other.
    doc = nlp(Doc(nlp.vocab, words=["Anna", "in", "Rome", "0"]))
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("Anna", "PER"), ("Rome", "LOC")]
