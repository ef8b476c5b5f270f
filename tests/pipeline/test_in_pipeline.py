"""The recognizer among other components of spaCy."""

import numpy
import pytest
import spacy
from spacy.kb import InMemoryLookupKB
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import fix_random_seed
from tiny_pipelines import (
    LABELS,
    SENTENCES,
    TEXTS,
    assert_same_predictions,
    get_ents,
    make_config,
    make_examples,
    make_nlp,
    predict_ents,
    train,
)

TEXT = SENTENCES[0][0]
GOLD = SENTENCES[0][1]
EMBED = {
    "@architectures": "spacy.Tok2Vec.v2",
    "embed": {
        "@architectures": "spacy.MultiHashEmbed.v2",
        "width": 16,
        "attrs": ["NORM", "PREFIX", "SUFFIX", "SHAPE"],
        "rows": [200, 100, 100, 100],
        "include_static_vectors": False,
    },
    "encode": {
        "@architectures": "spacy.MaxoutWindowEncoder.v2",
        "width": 16,
        "window_size": 1,
        "maxout_pieces": 2,
        "depth": 1,
    },
}
LISTENER = {"@architectures": "spacy.Tok2VecListener.v1", "width": 16, "upstream": "tok2vec"}


def load(trained_bytes, **settings):
    return make_nlp(**settings).from_bytes(trained_bytes)


def make_shared_nlp():
    """A recognizer and a tagger that listen to one embedding."""
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec", config={"model": EMBED})
    nlp.add_pipe("ner_crf", config=make_config(tok2vec=LISTENER))
    nlp.add_pipe("tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": LISTENER}})
    return nlp


def make_tagged_examples(nlp):
    examples = make_examples(nlp)
    for example in examples:
        for token in example.reference:
            token.tag_ = "NAME" if token.text[0].isupper() else "WORD"
    return examples


@pytest.fixture(scope="module")
def shared_nlp():
    fix_random_seed(0)
    nlp = make_shared_nlp()
    optimizer = nlp.initialize(lambda: make_tagged_examples(nlp))
    optimizer.learn_rate = 0.02
    for _ in range(40):
        losses = nlp.update(make_tagged_examples(nlp), sgd=optimizer)
    assert set(losses) == {"tok2vec", "ner_crf", "tagger"}
    return nlp


@pytest.fixture
def shared(shared_nlp):
    return make_shared_nlp().from_bytes(shared_nlp.to_bytes())


def get_array(nlp):
    """Some weights of the shared embedding."""
    return nlp.get_pipe("tok2vec").model.get_ref("embed").to_bytes()


def test_a_tok2vec_can_be_shared(shared):
    examples = make_tagged_examples(shared)
    scores = shared.evaluate(examples)
    assert scores["ents_f"] == 1.0
    assert scores["tag_acc"] == 1.0


def test_a_shared_tok2vec_learns_from_the_recognizer_alone(shared):
    shared.remove_pipe("tagger")
    nlp = spacy.blank("en").from_config(shared.config).from_bytes(shared.to_bytes())
    before = get_array(nlp)
    optimizer = nlp.resume_training()
    for _ in range(2):  # spaCy applies the gradients of a tok2vec with the next batch
        nlp.update(make_examples(nlp), sgd=optimizer)
    assert get_array(nlp) != before


def test_a_frozen_tok2vec_stays_as_it_is(shared):
    before = get_array(shared)
    optimizer = shared.resume_training()
    for _ in range(3):
        # As `spacy train` does with `frozen_components` and `annotating_components`.
        shared.update(make_tagged_examples(shared), sgd=optimizer, exclude=["tok2vec"], annotates=["tok2vec"])
    assert get_array(shared) == before
    assert shared.evaluate(make_examples(shared))["ents_f"] == 1.0


def test_a_frozen_recognizer_stays_as_it_is(shared):
    before = shared.get_pipe("ner_crf").to_bytes()
    optimizer = shared.resume_training()
    shared.update(make_tagged_examples(shared), sgd=optimizer, exclude=["ner_crf"])
    assert shared.get_pipe("ner_crf").to_bytes() == before


def test_listeners_can_be_replaced(shared):
    before = predict_ents(shared)
    assert shared.get_pipe("ner_crf").model.get_ref("tok2vec").name == "tok2vec-listener"
    shared.replace_listeners("tok2vec", "ner_crf", ["model.tok2vec"])
    assert predict_ents(shared) == before
    shared.remove_pipe("tagger")
    shared.remove_pipe("tok2vec")
    assert predict_ents(shared) == before
    loaded = spacy.blank("en").from_config(shared.config).from_bytes(shared.to_bytes())
    assert predict_ents(loaded) == before


def test_a_recognizer_can_be_sourced(trained_bytes):
    # spaCy gives the component of the source its new name.
    source = load(trained_bytes)
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("ner_crf", name="names", source=source)
    assert predict_ents(nlp) == predict_ents(source)
    assert nlp.get_pipe("names").labels == LABELS


def test_a_sourced_listener_gets_an_embedding_of_its_own(shared):
    shared.replace_listeners("tok2vec", "ner_crf", ["model.tok2vec"])
    nlp = spacy.blank("en")
    nlp.add_pipe("ner_crf", source=shared)
    assert predict_ents(nlp) == predict_ents(shared)


def test_a_pipeline_assembles_from_a_config_that_sources_it(trained, tmp_path):
    trained.to_disk(tmp_path / "trained")
    config = {
        "nlp": {"lang": "en", "pipeline": ["sentencizer", "ner_crf"]},
        "components": {
            "sentencizer": {"factory": "sentencizer"},
            "ner_crf": {"source": str(tmp_path / "trained")},
        },
    }
    nlp = spacy.util.load_model_from_config(spacy.util.Config(config), auto_fill=True)
    assert predict_ents(nlp) == predict_ents(trained)


def test_two_recognizers_share_a_document():
    nlp = make_nlp()
    nlp.rename_pipe("ner_crf", "people")
    nlp.add_pipe("ner_crf", name="places", config=make_config())
    people = [(text, [ent for ent in entities if ent[2] == "PER"]) for text, entities in SENTENCES]
    places = [(text, [ent for ent in entities if ent[2] != "PER"]) for text, entities in SENTENCES]
    for name, sentences in (("people", people), ("places", places)):
        pipe = nlp.get_pipe(name)
        pipe.initialize(lambda: make_examples(nlp, sentences), nlp=nlp)  # noqa: B023
        optimizer = nlp.create_optimizer()
        optimizer.learn_rate = 0.02
        for _ in range(40):
            with nlp.select_pipes(enable=name):
                losses = nlp.update(make_examples(nlp, sentences), sgd=optimizer)
        assert list(losses) == [name]
    assert nlp.get_pipe("people").labels == ("PER",)
    assert nlp.get_pipe("places").labels == ("LOC", "ORG")
    for text, entities in SENTENCES:
        # The second one leaves what the first has found.
        assert get_ents(nlp(text)) == entities


def test_an_entity_ruler_before_it_is_kept_and_built_upon(trained_bytes):
    nlp = load(trained_bytes)
    ruler = nlp.add_pipe("entity_ruler", before="ner_crf")
    ruler.add_patterns(
        [{"label": "CITY", "pattern": "Berlin", "id": "berlin"}, {"label": "ORG", "pattern": "works at"}]
    )
    doc = nlp(TEXT)
    assert get_ents(doc) == [(0, 2, "PER"), (2, 4, "ORG"), (4, 6, "ORG"), (7, 8, "CITY")]
    assert doc.ents[3].ent_id_ == "berlin"
    assert doc.ents[0].ent_id_ == ""


def test_an_entity_ruler_before_it_can_be_overwritten(trained_bytes):
    nlp = load(trained_bytes)
    nlp.get_pipe("ner_crf").cfg["overwrite"] = True
    nlp.add_pipe("entity_ruler", before="ner_crf").add_patterns([{"label": "CITY", "pattern": "Acme Corp in Berlin"}])
    assert get_ents(nlp(TEXT)) == GOLD


def test_an_entity_ruler_after_it_fills_the_rest(trained_bytes):
    nlp = load(trained_bytes)
    nlp.add_pipe("entity_ruler").add_patterns(
        [{"label": "VERB", "pattern": "works"}, {"label": "X", "pattern": "Acme"}]
    )
    assert get_ents(nlp(TEXT)) == sorted([*GOLD, (2, 3, "VERB")])


def test_knowledge_base_ids_of_earlier_entities_are_kept(trained):
    doc = trained.make_doc(TEXT)
    doc.ents = [Span(doc, 7, 8, label="LOC", kb_id="Q64", span_id="b")]
    doc = trained(doc)
    assert get_ents(doc) == GOLD
    assert [(ent.kb_id_, ent.id_) for ent in doc.ents] == [("", ""), ("", ""), ("Q64", "b")]


def test_an_entity_linker_after_it_links(trained_bytes):
    nlp = load(trained_bytes)
    nlp.add_pipe("sentencizer", first=True)
    linker = nlp.add_pipe("entity_linker", config={"incl_context": False})

    def make_kb(vocab):
        kb = InMemoryLookupKB(vocab, entity_vector_length=2)
        kb.add_entity("Q64", freq=10, entity_vector=[1.0, 2.0])
        kb.add_alias("Berlin", ["Q64"], [1.0])
        return kb

    linker.set_kb(make_kb)
    start = TEXT.index("Berlin")
    gold = {"entities": [(start, start + 6, "LOC")], "links": {(start, start + 6): {"Q64": 1.0}}}
    example = Example.from_dict(nlp.make_doc(TEXT), {**gold, "sent_starts": [1] + [0] * 8})
    linker.initialize(lambda: [example], nlp=nlp, kb_loader=make_kb)
    doc = nlp(TEXT)
    assert [(ent.text, ent.label_, ent.kb_id_) for ent in doc.ents] == [
        ("Anna Schmidt", "PER", "NIL"),
        ("Acme Corp", "ORG", "NIL"),
        ("Berlin", "LOC", "Q64"),
    ]


def test_what_annotating_components_set_does_not_bind_training(trained_bytes):
    # The ruler is wrong, the references are right: training goes by the references.
    nlp = make_nlp()
    ruler = nlp.add_pipe("entity_ruler", before="ner_crf")
    ruler.add_patterns([{"label": "WRONG", "pattern": "Anna Schmidt"}, {"label": "PER", "pattern": "Acme"}])
    fix_random_seed(0)
    optimizer = nlp.initialize(lambda: make_examples(nlp))
    optimizer.learn_rate = 0.02
    for _ in range(40):
        losses = nlp.update(make_examples(nlp), sgd=optimizer, annotates=["entity_ruler"])
    assert losses["ner_crf"] < 1.0
    with nlp.select_pipes(disable="entity_ruler"):
        assert get_ents(nlp(TEXT)) == GOLD


def test_sentence_starts_of_annotating_components_reach_training():
    nlp = make_nlp()
    nlp.add_pipe("sentencizer", before="ner_crf", config={"punct_chars": ["Acme"]})
    optimizer = nlp.initialize(lambda: make_examples(nlp))
    with pytest.warns(UserWarning, match="CRF350"):
        nlp.update(make_examples(nlp), sgd=optimizer, annotates=["sentencizer"])
    assert nlp.get_pipe("ner_crf").n_unusable_entities == 1


def test_selected_pipes(trained_bytes):
    nlp = load(trained_bytes)
    nlp.add_pipe("sentencizer")
    with nlp.select_pipes(disable="ner_crf"):
        assert not nlp(TEXT).ents
    assert not nlp(TEXT, disable=["ner_crf"]).ents
    with nlp.select_pipes(enable="ner_crf"):
        assert get_ents(nlp(TEXT)) == GOLD
    loaded = spacy.blank("en").from_config(nlp.config, disable=["ner_crf"]).from_bytes(nlp.to_bytes())
    loaded.enable_pipe("ner_crf")
    assert get_ents(loaded(TEXT)) == GOLD


def test_tuples_carry_their_context(trained):
    pairs = [(text, {"id": i}) for i, text in enumerate(TEXTS * 3)]
    results = list(trained.pipe(pairs, as_tuples=True, batch_size=4))
    assert [context["id"] for _, context in results] == list(range(len(pairs)))
    assert [get_ents(doc) for doc, _ in results] == predict_ents(trained) * 3


def test_documents_are_taken_as_input(trained):
    docs = [trained.make_doc(text) for text in TEXTS]
    annotated = list(trained.pipe(docs))
    assert all(before is after for before, after in zip(docs, annotated, strict=True))
    assert [get_ents(doc) for doc in annotated] == predict_ents(trained)
    doc = Doc(trained.vocab, words=TEXT.split())
    assert trained(doc) is doc
    assert get_ents(doc) == GOLD


def test_an_annotated_document_can_be_annotated_again(trained):
    doc = trained(TEXT)
    assert get_ents(trained(doc)) == GOLD


def test_parts_of_documents_can_be_annotated(trained):
    doc = trained.make_doc(f"{SENTENCES[2][0]} {TEXT}")
    part = trained(doc[4:].as_doc())
    assert get_ents(part) == GOLD


def test_memory_zones_leave_nothing_behind(trained_bytes):
    nlp = load(trained_bytes)
    expected = predict_ents(nlp, TEXTS)
    for i in range(3):
        with nlp.memory_zone():
            found = [get_ents(doc) for doc in nlp.pipe([*TEXTS, f"Unheard{i} words{i} of Frobnitz{i}"])]
        assert found[:-1] == expected
        assert f"Unheard{i}" not in nlp.vocab.strings
    assert predict_ents(nlp, TEXTS) == expected


class Trouble(Exception):
    pass


@pytest.fixture
def troubled(trained_bytes, monkeypatch):
    """A recognizer that fails on documents with a certain word."""
    nlp = load(trained_bytes)
    pipe = nlp.get_pipe("ner_crf")
    predict = pipe.predict

    def fail(docs):
        docs = list(docs)
        if any("trouble" in doc.text for doc in docs):
            raise Trouble(len(docs))
        return predict(docs)

    monkeypatch.setattr(pipe, "predict", fail)
    return nlp


def test_one_bad_document_does_not_cost_its_batch(troubled):
    failed = []
    troubled.set_error_handler(lambda name, pipe, docs, error: failed.append((name, [doc.text for doc in docs], error)))
    texts = [*TEXTS, "trouble ahead", TEXT, "more trouble", TEXT]
    docs = list(troubled.pipe(texts))
    assert [doc.text for doc in docs] == [*TEXTS, TEXT, TEXT]
    assert get_ents(docs[-1]) == get_ents(docs[-2]) == GOLD
    assert [(name, texts) for name, texts, _ in failed] == [
        ("ner_crf", ["trouble ahead"]),
        ("ner_crf", ["more trouble"]),
    ]
    assert all(isinstance(error, Trouble) for *_, error in failed)


def test_errors_are_raised_unless_a_handler_is_set(troubled):
    with pytest.raises(Trouble):
        list(troubled.pipe([TEXT, "trouble"]))
    with pytest.raises(Trouble):
        troubled("trouble")


def test_a_handler_of_the_component_alone(troubled):
    troubled.get_pipe("ner_crf").set_error_handler(spacy.util.ignore_error)
    assert len(list(troubled.pipe([TEXT, "trouble"]))) == 1
    assert len(list(troubled.get_pipe("ner_crf").pipe(map(troubled.make_doc, ["trouble", TEXT])))) == 1


def test_errors_with_contexts(troubled):
    troubled.set_error_handler(spacy.util.ignore_error)
    pairs = [(TEXT, 0), ("trouble", 1), (TEXT, 2)]
    assert [context for _, context in troubled.pipe(pairs, as_tuples=True)] == [0, 2]


def test_the_recognizer_analyzes_as_what_it_is(trained):
    analysis = trained.analyze_pipes()
    assert analysis["summary"]["ner_crf"]["assigns"] == ["doc.ents", "token.ent_iob", "token.ent_type"]
    assert not analysis["problems"]["ner_crf"]


def test_a_tok2vec_trained_before_is_kept_through_files(shared, tmp_path):
    shared.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert predict_ents(loaded) == predict_ents(shared)
    scores = [nlp.get_pipe("ner_crf").model.predict([nlp("Bob left Paris")]) for nlp in (shared, loaded)]
    numpy.testing.assert_array_equal(scores[0].emissions, scores[1].emissions)


def test_a_copy_of_the_pipeline_trains_on_its_own(trained_bytes):
    nlp = load(trained_bytes)
    copied = load(nlp.to_bytes())
    train(copied, n_steps=1)
    assert_same_predictions(nlp, load(trained_bytes))
