"""A saved pipeline, and an engine that needs no further process."""

from functools import partial

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc
from tiny_pipelines import train_nlp

from spacy_bilstm_crf.annotate import Job, annotate, run
from spacy_bilstm_crf.annotate.folders import open_folder
from spacy_bilstm_crf.annotate.local import Order
from spacy_bilstm_crf.annotate.shards import Annotator
from spacy_bilstm_crf.annotate.tagging import want_probabilities


@Language.component("test_fails_on_bad")
def fails_on_bad(doc: Doc) -> Doc:
    """A component that cannot process some documents."""
    if "BAD" in doc.text:
        raise RuntimeError("this document is bad")
    return doc


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """The path of a trained pipeline."""
    nlp = train_nlp()
    nlp.meta["name"], nlp.meta["version"] = "tiny", "1.2.3"
    path = tmp_path_factory.mktemp("model") / "tiny"
    nlp.to_disk(path)
    return str(path)


@pytest.fixture(scope="session")
def loaded(model):
    """The same pipeline, loaded, with probabilities. Tests do not change it."""
    nlp = spacy.load(model)
    want_probabilities(nlp)
    return nlp


@pytest.fixture
def make_job(model, tmp_path):
    """Make a job that writes to `tmp_path / "out"`."""
    return partial(Job, model, str(tmp_path / "out"))


class InlineEngine:
    """Stands in for the local engine, in this process."""

    def __init__(self, job, *, on_event, nlp, **settings):
        self.annotator = Annotator(nlp, job, open_folder(job.output))
        self.on_event = on_event

    def run(self, parts):
        for part in parts:
            order = Order(part)

            def on_progress(n_docs, order=order):
                order.n_docs += n_docs
                self.on_event(order, {"event": "progress", "n_docs": n_docs})

            receipt = self.annotator.annotate(part, on_progress=on_progress)
            self.on_event(order, {"event": "done", "counts": receipt.counts()})


@pytest.fixture
def annotate_inline(monkeypatch, loaded):
    """`annotate`, with workers replaced by this process, and the pipeline by one that is loaded already."""

    def call(*args, nlp=loaded, **kwargs):
        with monkeypatch.context() as patch:
            patch.setattr(run, "LocalEngine", partial(InlineEngine, nlp=nlp))
            return annotate(*args, **kwargs)

    return call
