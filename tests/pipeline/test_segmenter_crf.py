"""The word segmenter: training, words that are set before, what becomes of Docs, files."""

import itertools
import pickle
import time

import numpy
import pytest
import spacy
from hypothesis import example, given, settings
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import fix_random_seed
from tiny_segmenters import MODEL, SENTENCES, TOKENIZER, make_examples, make_nlp, make_words, segment, train

from spacy_bilstm_crf.types import BORDERS_KEY

TEXTS = ["北京的图书馆里", "我喜欢 2024年的iPhone。", "", " ", "馆", "我\n\n喜欢\u3000书", "👩\u200d💻ＡＢＣ的Ünïcödé"]
CHARACTERS = {"@tokenizers": "spacy.zh.ChineseTokenizer", "segmenter": "char"}


@pytest.fixture(scope="module")
def trained():
    return train(make_nlp())


@pytest.fixture
def loaded(trained):
    """The trained pipeline, for a test that changes it."""
    return make_nlp().from_bytes(trained.to_bytes())


@pytest.mark.parametrize("lang", SENTENCES)
def test_it_learns_any_language_that_is_written_without_spaces(lang):
    # "xx": no library for the language is asked for.
    nlp = train(make_nlp("xx"), SENTENCES[lang])
    for sentence in SENTENCES[lang]:
        assert segment(nlp, "".join(sentence.split())) == sentence.split()
    scores = nlp.evaluate(make_examples(nlp, SENTENCES[lang]))
    assert scores["token_f"] == scores["token_acc"] == 1.0


@pytest.mark.parametrize("settings", [{"crf": False}, {"constrained": False}])
def test_the_systems_it_is_measured_against_learn_as_well(settings):
    nlp = train(make_nlp(model=settings))
    assert nlp.evaluate(make_examples(nlp))["token_f"] == 1.0
    assert nlp("北京的图书馆iPad里").text == "北京的图书馆iPad里"


def test_it_learns_on_the_characters_of_spacys_chinese_tokenizer():
    nlp = train(make_nlp("zh", tokenizer=CHARACTERS))
    assert nlp.evaluate(make_examples(nlp))["token_f"] == 1.0
    # What is written as one stays one, whatever the model thinks.
    starts = {token.idx for token in nlp("1234567的abc书")}
    assert not starts & {*range(1, 7), 9, 10}


def test_words_that_were_not_seen_are_scored(trained):
    examples = make_examples(trained, ["我 喜欢 喜欢 的 秋 。"])
    assert trained.evaluate(examples)["token_oov_r"] in (0.0, 1.0)
    assert trained.evaluate(make_examples(trained))["token_oov_r"] is None


@settings(max_examples=60)
@given(st.one_of(st.text(), st.text(alphabet="我们的书 aB1é\u0301\n\u200d👩👍🏽１Ａ\u3000")))
@example("我" * 300)
def test_text_stays_the_same(trained, text):
    doc = trained(text)
    assert doc.text == text
    assert [token.idx for token in doc] == [text.index(token.text, token.idx) for token in doc]
    assert not any(token.is_space != token.text.isspace() for token in doc)


@settings(max_examples=30)
@given(st.text(), st.data())
def test_what_was_set_before_stays(trained, text, data):
    doc = trained.make_doc(text)
    index = st.integers(0, len(doc))
    spans = [doc[a:b] for a, b in data.draw(st.lists(st.tuples(index, index).map(sorted), max_size=3)) if a < b]
    doc.spans["preset_words"] = spans
    doc.spans["others"] = spans
    doc.ents = [Span(doc, span.start, span.end, "X") for span in spacy.util.filter_spans(spans[:1])]
    doc.user_data["key"] = "value"
    words = trained(doc)
    assert words.text == text
    found, expected = ([(e.start_char, e.end_char, e.label_) for e in d.ents] for d in (words, doc))
    assert found == expected
    assert [span.text for span in words.spans["others"]] == [
        words.char_span(s.start_char, s.end_char, alignment_mode="expand").text for s in spans
    ]
    assert words.user_data["key"] == "value"
    if len(spans) == 1:
        assert spans[0].text in [token.text for token in words]


def test_words_around_preset_ones_are_still_the_best(trained):
    text = "北京的图书馆很大。"
    assert segment(trained, text) == ["北京", "的", "图书馆", "很", "大", "。"]
    doc = trained.make_doc(text)
    doc.spans["preset_words"] = [doc[1:3], doc[4:5]]
    words = trained(doc)
    assert {"京的", "书"} <= {token.text for token in words}
    # The best among the paths with these words, by enumeration.
    pipe = trained.get_pipe("segmenter_crf")
    free = trained.make_doc(text)
    for segmentation in pipe.n_best([free], 300)[0]:
        bounds = numpy.cumsum([0, *map(len, segmentation.words)]).tolist()
        pairs = set(itertools.pairwise(bounds))
        if {(1, 3), (4, 5)} <= pairs:
            assert tuple(token.text for token in words) == segmentation.words
            break
    else:
        pytest.fail("no segmentation with the preset words")


def test_preset_words_can_be_turned_off(trained):
    nlp = make_nlp(words_key=None).from_bytes(trained.to_bytes())
    nlp.get_pipe("segmenter_crf").cfg["words_key"] = None
    doc = nlp.make_doc("北京的图书馆")
    doc.spans["preset_words"] = [doc[1:3]]
    assert [token.text for token in nlp(doc)] == ["北京", "的", "图书馆"]


def test_a_matcher_gives_words(trained):
    nlp = make_nlp().from_bytes(trained.to_bytes())
    ruler = nlp.add_pipe("span_ruler", before="segmenter_crf", config={"spans_key": "preset_words"})
    ruler.add_patterns([{"label": "WORD", "pattern": "京的图"}])
    assert "京的图" in segment(nlp, "北京的图书馆很大。")


@pytest.mark.parametrize("n_process", [1, 2])
def test_contexts_come_back(trained, n_process):
    pairs = [(text, i) for i, text in enumerate(TEXTS)]
    found = list(trained.pipe(pairs, as_tuples=True, n_process=n_process, batch_size=2))
    assert [(doc.text, context) for doc, context in found] == pairs
    assert [[token.text for token in doc] for doc, _ in found] == [segment(trained, text) for text in TEXTS]


def test_batches_do_not_matter(trained):
    together = list(trained.pipe(TEXTS))
    assert [[token.text for token in doc] for doc in together] == [segment(trained, text) for text in TEXTS]
    assert list(trained.pipe([])) == []


def test_docs_are_left_as_they_are(trained):
    doc = trained.make_doc("北京的图书馆")
    assert trained(doc) is not doc
    assert len(doc) == 6


def test_one_bad_document_does_not_cost_its_batch(loaded):
    pipe = loaded.get_pipe("segmenter_crf")
    predict = pipe.model._func

    def fail(model, docs, is_train):
        if any("坏" in doc.text for doc in docs):
            raise RuntimeError("bad document")
        return predict(model, docs, is_train)

    pipe.model._func = fail
    with pytest.raises(RuntimeError):
        loaded("坏")
    failed = []
    pipe.set_error_handler(lambda name, proc, docs, error: failed.extend(docs))
    assert [doc.text for doc in pipe.pipe(map(loaded.make_doc, ["我们", "坏", "书"]))] == ["我们", "书"]
    assert pipe(loaded.make_doc("坏")) is None
    assert [doc.text for doc in failed] == ["坏", "坏"]


def test_time_is_linear(trained):
    def seconds(n):
        start = time.process_time()
        trained("我们喜欢的" * n)
        return time.process_time() - start

    seconds(200)
    assert seconds(4000) < 4 * 10 * min(seconds(400) for _ in range(3))


@pytest.mark.parametrize("text", ["我" * 10_000, "👩\u200d💻" * 2000, "a" * 50_000, " " * 5000, "我 " * 5000])
def test_long_documents(trained, text):
    assert trained(text).text == text


def test_the_next_component_sees_words():
    nlp = make_nlp()
    nlp.add_pipe("ner_crf", config={"model": {"hidden_width": 16}})
    examples = make_examples(nlp)
    for eg in examples:
        eg.reference.ents = [
            Span(eg.reference, token.i, token.i + 1, "GPE") for token in eg.reference if token.text == "北京"
        ]
    fix_random_seed(0)
    optimizer = nlp.initialize(lambda: examples)
    optimizer.learn_rate = 0.02
    # The list of known words is not one of characters.
    (known,) = (node.attrs["known"] for node in nlp.get_pipe("ner_crf").model.walk() if "known" in node.attrs)
    assert nlp.vocab.strings["北京"] in known
    seen = []
    ner = nlp.get_pipe("ner_crf")
    get_loss = ner.get_loss
    ner.get_loss = lambda examples, scores: (
        seen.append([len(eg.predicted) for eg in examples]),
        get_loss(examples, scores),
    )[1]
    for _ in range(40):
        fresh = [Example(nlp.make_doc(eg.text), eg.reference) for eg in examples]
        nlp.update(fresh, sgd=optimizer, annotates=["segmenter_crf"])
    assert seen[0] != seen[-1] == [len(eg.reference) for eg in examples]
    scores = nlp.evaluate([Example(nlp.make_doc(eg.text), eg.reference) for eg in examples])
    assert scores["ents_f"] == scores["token_f"] == 1.0
    assert [(ent.text, ent.label_) for ent in nlp("我喜欢北京的书。").ents] == [("北京", "GPE")]


def test_what_is_known_of_some_borders_is_learnt():
    nlp = make_nlp()
    words = [make_words(nlp, sentence) for sentence in SENTENCES["zh"]]
    examples = []
    for doc in words:
        reference = nlp.make_doc(doc.text)
        starts = {token.idx for token in doc}
        # Every second place between characters.
        reference.user_data[BORDERS_KEY] = [[token.idx, token.idx in starts] for token in reference if token.i % 2]
        examples.append(Example(nlp.make_doc(doc.text), reference))
    fix_random_seed(0)
    optimizer = nlp.initialize(lambda: examples)
    optimizer.learn_rate = 0.02
    losses = [nlp.update(examples, sgd=optimizer, losses={})["segmenter_crf"] for _ in range(40)]
    assert losses[-1] < 0.05 * losses[0]
    for eg in examples:
        starts = {token.idx for token in nlp(eg.text)}
        assert all((offset in starts) == known for offset, known in eg.reference.user_data[BORDERS_KEY])


def loss_of_nothing_known(nlp, texts):
    pipe = nlp.get_pipe("segmenter_crf")
    examples = [Example(nlp.make_doc(text), nlp.make_doc(text)) for text in texts]
    for eg in examples:
        eg.reference.user_data[BORDERS_KEY] = []
    scores, _ = pipe.model.begin_update([eg.predicted for eg in examples])
    loss, gradient = pipe.get_loss(examples, scores)
    return loss, max(float(abs(array).max(initial=0.0)) for array in gradient.arrays)


@pytest.mark.parametrize("texts", [["甲乙丙丁"], ["甲乙丙丁", "甲 乙丙"], ["", "甲乙1"]])
def test_nothing_known_teaches_nothing(loaded, texts):
    assert loss_of_nothing_known(loaded, texts) == (0.0, 0.0)


def test_a_character_by_itself_teaches_nothing(loaded):
    # It has one tag, so it counts as annotated, and its loss is computed: zero up to rounding.
    assert loss_of_nothing_known(loaded, ["", "甲", "甲乙1"]) == pytest.approx((0.0, 0.0), abs=1e-12)


def test_borders_that_cannot_be_learnt_are_said_once(loaded):
    examples = make_examples(loaded, ["20 24 年"])
    with pytest.warns(UserWarning, match="CRF352"):
        loaded.update(examples)
    loaded.update(examples)
    assert loaded.get_pipe("segmenter_crf").n_lost_borders == 2


def test_borders_against_the_text_are_read_as_unknown():
    nlp = make_nlp("zh", tokenizer=CHARACTERS)
    reference = Doc(nlp.vocab, words=["20", "24年", "的 书"], spaces=[False] * 3)
    examples = [Example(nlp.make_doc(reference.text), reference), *make_examples(nlp)]
    optimizer = nlp.initialize(lambda: examples)
    with pytest.warns(UserWarning, match="CRF352"):
        nlp.update(examples, sgd=optimizer)
    assert nlp.get_pipe("segmenter_crf").n_lost_borders == 2


def test_references_without_spaces_are_noticed():
    nlp = make_nlp()
    docs = [Doc(nlp.vocab, words=sentence.split()) for sentence in SENTENCES["zh"]]
    examples = [Example(Doc(nlp.vocab, words=[token.text for token in doc]), doc) for doc in docs]
    with pytest.warns(UserWarning, match="CRF353"):
        nlp.initialize(lambda: examples)


def test_probabilities_of_words(trained):
    nlp = make_nlp(prob_attr="segmenter_test_prob")
    nlp.from_bytes(trained.to_bytes())
    nlp.get_pipe("segmenter_crf").cfg["prob_attr"] = "segmenter_test_prob"
    pipe = nlp.get_pipe("segmenter_crf")
    for text in TEXTS:
        doc = nlp(text)
        probabilities = [token._.segmenter_test_prob for token in doc]
        assert all(0.0 < p <= 1.0 + 1e-9 for p in probabilities)
        (best, *_) = pipe.n_best([nlp.make_doc(text)], 1)[0]
        assert best.words == tuple(token.text for token in doc)
        # No word is less probable than all of them together.
        assert all(p >= best.prob - 1e-6 for p in probabilities)
    stored = Doc(nlp.vocab).from_bytes(doc.to_bytes())
    assert [token._.segmenter_test_prob for token in stored] == probabilities
    spacy.tokens.Token.set_extension("segmenter_test_getter", getter=len, force=True)
    with pytest.raises(ValueError, match="CRF320"):
        make_nlp(prob_attr="segmenter_test_getter")


def test_n_best_segmentations_and_their_probabilities(trained):
    pipe = trained.get_pipe("segmenter_crf")
    docs = [trained.make_doc(text) for text in ("北京的书", "", "书")]
    found = pipe.n_best(docs, 10)
    assert [len(paths) for paths in found] == [8, 1, 1]
    assert len({path.words for path in found[0]}) == 8
    assert sum(path.prob for path in found[0]) == pytest.approx(1.0)
    assert [path.log_prob for path in found[0]] == sorted((path.log_prob for path in found[0]), reverse=True)
    for path in found[0]:
        (log_prob,) = pipe.log_prob([Example(docs[0], make_words(trained, " ".join(path.words)))])
        assert log_prob == pytest.approx(path.log_prob, abs=1e-5)
    with pytest.raises(ValueError, match="CRF322"):
        pipe.n_best(docs, 0)


def test_it_is_stored(trained, tmp_path):
    trained.to_disk(tmp_path)
    copies = [spacy.load(tmp_path), make_nlp().from_bytes(trained.to_bytes()), pickle.loads(pickle.dumps(trained))]
    for nlp in copies:
        assert [segment(nlp, text) for text in TEXTS] == [segment(trained, text) for text in TEXTS]
        examples = make_examples(nlp, ["我 喜欢 喜欢 的 秋 。"])
        assert nlp.evaluate(examples)["token_oov_r"] == trained.evaluate(examples)["token_oov_r"]


def test_it_can_be_sourced_and_trained_further(trained):
    nlp = spacy.blank("xx", config={"nlp": {"tokenizer": TOKENIZER}})
    nlp.add_pipe("segmenter_crf", source=trained)
    assert segment(nlp, "北京的图书馆") == ["北京", "的", "图书馆"]
    examples = make_examples(nlp, ["京的 北 图书馆"])
    optimizer = nlp.resume_training()
    optimizer.learn_rate = 0.02
    losses = [nlp.update(examples, sgd=optimizer, losses={})["segmenter_crf"] for _ in range(20)]
    assert losses[-1] < losses[0]


def test_it_says_what_it_is(trained):
    pipe = trained.get_pipe("segmenter_crf")
    assert pipe.labels == ("B", "M", "E", "S")
    assert pipe.label_data is None
    assert trained.get_pipe_meta("segmenter_crf").retokenizes
    assert Language.get_factory_meta("segmenter_crf").default_score_weights["token_f"] == 1.0


def test_what_it_cannot_do_is_refused(trained):
    pipe = trained.get_pipe("segmenter_crf")
    with pytest.raises(ValueError, match="CRF332"):
        pipe.add_label("WORD")
    doc = trained.make_doc("我们")
    with pytest.raises(NotImplementedError, match="CRF333"):
        pipe.set_annotations([doc], pipe.predict([doc]))
    with pytest.raises(ValueError, match="CRF302"):
        make_nlp().initialize(lambda: make_examples(trained, [""]))
    with pytest.raises(ValueError, match="CRF201"):
        make_nlp()("我们")


def test_the_factory_needs_no_settings():
    nlp = spacy.blank("xx", config={"nlp": {"tokenizer": TOKENIZER}})
    nlp.add_pipe("segmenter_crf")
    nlp.initialize(lambda: make_examples(nlp))
    assert nlp("北京的图书馆").text == "北京的图书馆"
    assert MODEL["@architectures"] == nlp.get_pipe_config("segmenter_crf")["model"]["@architectures"]
