"""Odd documents, bad input, damaged files, processes, threads and memory."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest
import spacy
import srsly
from spacy.tokens import Doc, Span
from spacy.training import Example
from tiny_pipelines import (
    LABELS,
    SENTENCES,
    TEXTS,
    assert_same_predictions,
    get_ents,
    make_examples,
    make_nlp,
    predict_ents,
    predict_scores,
    train,
)


def run_python(script, *options, timeout=300):
    """Run a script in a Python of its own. Returns what it printed."""
    command = [sys.executable, *options, "-c", script]
    result = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


@pytest.fixture(scope="module")
def model_path(trained, tmp_path_factory):
    path = tmp_path_factory.mktemp("trained")
    trained.to_disk(path)
    return path


# Processes, threads, memory


@pytest.mark.parametrize("start_method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_processes_finish_after_torch_ran_in_the_parent(model_path, start_method):
    script = f"""
import multiprocessing, time
import spacy, torch

def main():
    multiprocessing.set_start_method("{start_method}")
    torch.set_num_threads(4)
    a = torch.rand(512, 512)
    for _ in range(20):
        a @ a
    nlp = spacy.load(r"{model_path}")
    text = "Carla Diaz left Acme Corp in Berlin ."
    expected = [(ent.text, ent.label_) for ent in nlp(text).ents]
    assert expected
    start = time.perf_counter()
    docs = list(nlp.pipe([text] * 200, n_process=2, batch_size=20))
    seconds = time.perf_counter() - start
    assert all([(ent.text, ent.label_) for ent in doc.ents] == expected for doc in docs)
    assert len(docs) == 200
    print(seconds)

if __name__ == "__main__":
    main()
"""
    if start_method == "spawn":
        # Spawned workers import the script, so it has to be a file.
        path = model_path.parent / "spawn.py"
        path.write_text(script)
        result = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=300)
        assert result.returncode == 0, result.stderr[-3000:]
    else:
        assert float(run_python(script)) < 30.0


def test_threads_find_what_one_thread_finds(trained):
    texts = [" ".join((TEXTS[i % 3], TEXTS[(i + 1) % 3], f"unheard{i}")) for i in range(50)]
    expected = [get_ents(trained(text)) for text in texts]
    trained.get_pipe("ner_crf").model.get_ref("tok2vec").attrs["cache"].clear()
    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(lambda: [get_ents(trained(text)) for text in texts]) for _ in range(8)]
        results = [job.result() for job in jobs]
    assert results == [expected] * 8
    assert any(expected)


def test_memory_stays_flat_in_a_memory_zone():
    # The default model on words that were never seen, with every warning an error.
    script = """
import itertools, resource
import numpy, spacy
from spacy.tokens import Doc, Span
from spacy.training import Example

nlp = spacy.blank("en")
nlp.add_pipe("ner_crf")
reference = Doc(nlp.vocab, words=["Anna", "left", "Oslo"])
reference.ents = [Span(reference, 0, 1, "PER"), Span(reference, 2, 3, "LOC")]
nlp.initialize(lambda: [Example(nlp.make_doc("Anna left Oslo"), reference)])
rng = numpy.random.default_rng(0)
counter = itertools.count()

def make_texts(n_tokens):
    while n_tokens > 0:
        size = int(rng.integers(5, 40))
        n_tokens -= size
        yield " ".join(f"w{next(counter) if rng.random() < 0.5 else 0}" for _ in range(size))

def run(n_tokens):
    seen = 0
    while seen < n_tokens:
        with nlp.memory_zone():
            seen += sum(len(doc) for doc in nlp.pipe(make_texts(10_000)))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

first = run(20_000)
print(run(180_000) - first)
"""
    assert float(run_python(script, "-W", "error")) <= 50.0


# Odd documents


def make_odd_docs(vocab):
    return {
        "empty": Doc(vocab, words=[]),
        "white space": Doc(vocab, words=[" ", "\n\n", "\t"]),
        "one token": Doc(vocab, words=["Anna"]),
        "one space": Doc(vocab, words=["\n"]),
        "long token": Doc(vocab, words=["Anna", "x" * 300_000, "Berlin"]),
        "controls": Doc(vocab, words=["\x00", "\u200b", "\U0001f600", "e\u0301", "\ufeff"]),
    }


@pytest.mark.parametrize("kind", make_odd_docs(spacy.blank("en").vocab))
def test_odd_documents_are_predicted(trained, kind):
    doc = make_odd_docs(trained.vocab)[kind]
    result = trained.get_pipe("ner_crf")(doc)
    assert result is doc
    assert all(not ent.text.isspace() for ent in doc.ents)
    together = [make_odd_docs(trained.vocab)[kind], trained.make_doc(TEXTS[0])]
    *_, last = trained.get_pipe("ner_crf").pipe(together)
    assert get_ents(together[0]) == get_ents(doc)
    assert get_ents(last) == get_ents(trained(TEXTS[0]))


@pytest.mark.parametrize("kind", make_odd_docs(spacy.blank("en").vocab))
@pytest.mark.parametrize("alone", [True, False])
def test_odd_documents_are_learnt_from(trained_bytes, kind, alone):
    nlp = make_nlp().from_bytes(trained_bytes)

    def make():
        reference = make_odd_docs(nlp.vocab)[kind]
        if kind in ("one token", "long token"):
            reference.ents = [Span(reference, 0, 1, "PER")]
        examples = [Example(make_odd_docs(nlp.vocab)[kind], reference)]
        return examples if alone else examples + make_examples(nlp)

    optimizer = nlp.resume_training()
    for _ in range(2):
        losses = nlp.update(make(), sgd=optimizer, drop=0.2)
        assert numpy.isfinite(losses["ner_crf"])
    assert all(numpy.isfinite(array).all() for array in predict_scores(nlp).arrays)
    assert nlp.evaluate(make_examples(nlp))["ents_f"] == 1.0


@pytest.mark.parametrize("kind", ["white space", "one token", "long token"])
def test_odd_documents_initialize(kind):
    nlp = make_nlp()
    doc = make_odd_docs(nlp.vocab)[kind]
    pipe = nlp.get_pipe("ner_crf")
    pipe.initialize(lambda: [Example(doc, doc.copy())], nlp=nlp, labels=["PER"])
    assert pipe.predict([doc]).lengths.tolist() == [len(doc)]


def test_a_document_of_100000_tokens(trained_bytes):
    nlp = make_nlp().from_bytes(trained_bytes)
    nlp.max_length = 10**7
    words, tokens = [], []
    for text, entities in SENTENCES:
        tokens += [(len(words) + start, len(words) + end, label) for start, end, label in entities]
        words += text.split()
    n_copies = 100_000 // len(words) + 1
    reference = Doc(nlp.vocab, words=words * n_copies)
    reference.ents = [
        Span(reference, copy * len(words) + start, copy * len(words) + end, label)
        for copy in range(n_copies)
        for start, end, label in tokens
    ]
    example = Example(Doc(nlp.vocab, words=words * n_copies), reference)
    assert len(example.predicted) >= 100_000
    loss = nlp.update([example], sgd=nlp.resume_training())["ner_crf"]
    assert numpy.isfinite(loss)
    nlp.get_pipe("ner_crf")(example.predicted)
    found = set(get_ents(example.predicted))
    assert len(found & set(get_ents(reference))) > 0.9 * len(reference.ents)


# Bad input


def test_no_labels():
    nlp = make_nlp()
    pipe = nlp.get_pipe("ner_crf")
    doc = nlp.make_doc("Anna left")
    message = r"CRF301.*'ner_crf' has no labels.*call add_label"
    with pytest.raises(ValueError, match=message):
        nlp("Anna left")
    with pytest.raises(ValueError, match=message):
        pipe.update([Example(doc, doc.copy())])
    with pytest.raises(ValueError, match=message):
        nlp.initialize(lambda: [Example(doc, doc.copy())])
    with pytest.raises(ValueError, match=message):
        pipe.initialize(lambda: [Example(doc, doc.copy())], labels=[])
    with pytest.raises(ValueError, match=r"CRF300.*one string.*give \['PER'\]"):
        pipe.initialize(lambda: [Example(doc, doc.copy())], labels="PER")


def test_no_examples():
    pipe = make_nlp().get_pipe("ner_crf")
    with pytest.raises(TypeError, match=r"E930.*Expected function that returns an iterable of Example"):
        pipe.initialize(list)
    with pytest.raises(ValueError, match="CRF301"):
        pipe.initialize(lambda: iter(()))
    with pytest.raises(ValueError, match=r"CRF302.*no example has a token.*Check the training corpus"):
        pipe.initialize(lambda: iter(()), labels=["PER"])


def test_examples_without_tokens():
    nlp = make_nlp()
    with pytest.raises(ValueError, match="CRF302"):
        nlp.get_pipe("ner_crf").initialize(lambda: [Example(nlp.make_doc(""), nlp.make_doc(""))], labels=["PER"])


def test_no_weights():
    nlp = make_nlp()
    pipe = nlp.get_pipe("ner_crf")
    pipe.add_label("PER")
    message = r"CRF201.*call nlp\.initialize\(\), or load a trained pipeline"
    with pytest.raises(ValueError, match=message):
        nlp("Anna left")
    with pytest.raises(ValueError, match=message):
        pipe.update(make_examples(nlp))


@pytest.mark.parametrize("prefix", "BIESLUM")
def test_a_label_with_a_prefix(prefix):
    nlp = make_nlp()
    message = rf"CRF002.*'{prefix}-PER'.*give 'PER'"
    with pytest.raises(ValueError, match=message):
        nlp.get_pipe("ner_crf").add_label(f"{prefix}-PER")
    with pytest.raises(ValueError, match=message):
        nlp.initialize(lambda: make_examples(nlp, [("Anna left", [(0, 1, f"{prefix}-PER")])]))
    assert nlp.get_pipe("ner_crf").labels == ()


@pytest.mark.parametrize("label", ["", 3, None])
def test_a_label_that_is_none(label):
    with pytest.raises(ValueError, match=r"CRF003.*Give a name such as"):
        make_nlp().get_pipe("ner_crf").add_label(label)


@pytest.mark.parametrize("scheme", ["BILOU2", "", "IOE"])
def test_a_tag_scheme_that_does_not_exist(scheme):
    with pytest.raises(ValueError, match=r"CRF001.*Expected one of BIO, BIOES, IO, BMES"):
        make_nlp(tag_scheme=scheme)


@pytest.mark.parametrize("dropout", [2, 1.0, -0.5])
def test_dropout_of_two(trained_bytes, dropout):
    nlp = make_nlp().from_bytes(trained_bytes)
    with pytest.raises(ValueError, match=rf"CRF110.*was {dropout}.*check \[training\] dropout"):
        nlp.update(make_examples(nlp), drop=dropout)
    assert_same_predictions(nlp, make_nlp().from_bytes(trained_bytes))


@pytest.mark.parametrize("setting", [{"hidden_width": 0}, {"depth": -1}])
def test_sizes_out_of_range(setting):
    with pytest.raises(ValueError, match=r"CRF111.*check \[model\]"):
        make_nlp(model=setting)


def test_examples_that_are_none(trained_bytes):
    nlp = make_nlp().from_bytes(trained_bytes)
    with pytest.raises(TypeError, match="E978"):
        nlp.get_pipe("ner_crf").update([nlp.make_doc("Anna left")])


def test_scores_that_are_not_finite(trained_bytes):
    nlp = make_nlp().from_bytes(trained_bytes)
    shim = nlp.get_pipe("ner_crf").model.get_ref("output_layer").shims[0]
    shim.network.output.bias.data[0] = float("nan")
    message = r"CRF102.*lower the learning rate or clip gradients"
    with pytest.raises(ValueError, match=message):
        nlp(TEXTS[0])
    with pytest.raises(ValueError, match=message):
        nlp.update(make_examples(nlp))


# Files


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": {"hidden_width": 8}}, "CRF304.*CRF203.*hidden_width: 16 in the file, 8 in the config"),
        ({"model": {"depth": 2}}, "CRF304.*CRF203.*depth: 1 in the file, 2 in the config"),
        ({"model": {"crf": False}}, "CRF304.*CRF203.*crf: True in the file, False in the config"),
        ({"tag_scheme": "BIO"}, "CRF303.*scheme BIOES, the config says BIO.*with the config.cfg"),
    ],
)
def test_weights_and_settings_that_do_not_belong_together(trained, trained_bytes, tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        make_nlp(**settings).from_bytes(trained_bytes)
    trained.to_disk(tmp_path)
    config = make_nlp(**settings).config
    config.to_disk(tmp_path / "config.cfg")
    with pytest.raises(ValueError, match=message):
        spacy.load(tmp_path)


def test_an_embedding_of_another_size(trained_bytes):
    embed = {"@architectures": "spacy.MultiHashEmbed.v2", "width": 12, "include_static_vectors": False}
    embed |= {"attrs": ["NORM", "PREFIX", "SUFFIX", "SHAPE"], "rows": [200, 100, 100, 100]}
    tok2vec = {"@architectures": "spacy-bilstm-crf.WordFormEmbed.v1", "embed": embed}
    with pytest.raises(ValueError, match=r"CRF304.*get the model again, or load it with the config it was saved with"):
        make_nlp(tok2vec=tok2vec).from_bytes(trained_bytes)


def test_labels_and_weights_that_do_not_belong_together(trained, tmp_path):
    trained.get_pipe("ner_crf").to_disk(tmp_path)
    cfg = srsly.read_json(tmp_path / "cfg")
    srsly.write_json(tmp_path / "cfg", {**cfg, "labels": [*LABELS, "MORE"]})
    with pytest.raises(ValueError, match=r"CRF305.*13 tags.*make 17.*get both from the same"):
        make_nlp().get_pipe("ner_crf").from_disk(tmp_path)


@pytest.mark.parametrize("name", ["model", "cfg"])
def test_cut_off_files(trained, tmp_path, name):
    trained.get_pipe("ner_crf").to_disk(tmp_path)
    data = (tmp_path / name).read_bytes()
    pipe = make_nlp().get_pipe("ner_crf")
    for n_bytes in {*numpy.linspace(0, len(data) - 1, 40, dtype=int).tolist(), 1, 2, len(data) - 1}:
        (tmp_path / name).write_bytes(data[:n_bytes])
        with pytest.raises(ValueError, match=r"(?s)CRF304.*get the model again"):
            pipe.from_disk(tmp_path)


def test_missing_files(trained, tmp_path):
    trained.get_pipe("ner_crf").to_disk(tmp_path)
    (tmp_path / "model").unlink()
    with pytest.raises(ValueError, match="CRF304"):
        make_nlp().get_pipe("ner_crf").from_disk(tmp_path)


def test_cut_off_bytes(trained):
    data = trained.get_pipe("ner_crf").to_bytes(exclude=["vocab"])
    pipe = make_nlp().get_pipe("ner_crf")
    for n_bytes in numpy.linspace(0, len(data) - 1, 30, dtype=int).tolist():
        with pytest.raises(ValueError, match=r"(?s)CRF304.*get the model again"):
            pipe.from_bytes(data[:n_bytes])


def test_altered_files_load_or_say_why_not(trained, tmp_path):
    trained.get_pipe("ner_crf").to_disk(tmp_path)
    data = (tmp_path / "model").read_bytes()
    rng = numpy.random.default_rng(0)
    pipe = make_nlp().get_pipe("ner_crf")
    # The structure of the file lies at its beginning and around its arrays.
    for position in [*range(60), *rng.integers(len(data), size=60).tolist()]:
        altered = bytearray(data)
        altered[position] ^= int(rng.integers(1, 256))
        (tmp_path / "model").write_bytes(bytes(altered))
        try:
            pipe.from_disk(tmp_path)
        except ValueError as error:
            assert "CRF30" in str(error)  # noqa: PT017


def test_a_failed_load_can_be_made_good(trained, trained_bytes, tmp_path):
    trained.get_pipe("ner_crf").to_disk(tmp_path)
    data = (tmp_path / "model").read_bytes()
    nlp = make_nlp()
    pipe = nlp.get_pipe("ner_crf")
    (tmp_path / "model").write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match="CRF304"):
        pipe.from_disk(tmp_path)
    (tmp_path / "model").write_bytes(data)
    pipe.from_disk(tmp_path)
    assert_same_predictions(trained, nlp)


def test_one_bad_document_is_handled_alone(trained_bytes):
    nlp = make_nlp().from_bytes(trained_bytes)
    failed = []
    nlp.set_error_handler(lambda name, proc, docs, error: failed.append((name, [doc.text for doc in docs])))
    embed = nlp.get_pipe("ner_crf").model.get_ref("tok2vec")
    forward = embed._func

    def fail(model, docs, is_train):
        if any("bad" in doc.text for doc in docs):
            raise RuntimeError("a bad document")
        return forward(model, docs, is_train)

    embed._func = fail
    texts = [*TEXTS[:3], "a bad document", *TEXTS[:3]]
    assert [get_ents(doc) for doc in nlp.pipe(texts)] == 2 * predict_ents(
        make_nlp().from_bytes(trained_bytes), TEXTS[:3]
    )
    assert failed == [("ner_crf", ["a bad document"])]
    assert nlp.get_pipe("ner_crf").get_error_handler() is not None
    train(nlp, n_steps=1)
