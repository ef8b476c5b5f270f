"""Pretrained vectors of words, found by the exact form and else by the lower-case one."""

from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy
from numpy.typing import NDArray
from spacy.attrs import ORTH
from spacy.strings import get_string_id
from spacy.tokens import Doc
from spacy.vocab import Vocab
from thinc.api import Linear, Model, chain, with_array
from thinc.types import Floats2d, Ints1d
from thinc.util import get_array_module, to_numpy

from ..errors import Errors
from ..types import EmbedModel
from .word_forms import find_keys

RowArray = NDArray[numpy.int64]


def WordVectors(*, width: int | None = None, fine_tune: bool = True) -> EmbedModel:
    """Embed words by the vectors of the vocabulary.

    width (int | None): Width that they are mapped to; None for the vectors as they are.
    fine_tune (bool): Train the vectors of the words of the training data as well.
    RETURNS (Model): From documents to one (n_tokens, width) array for each.
    REFERENCE: Collobert et al. 2011, who look up "The" as "the", and who train the vectors on
    """
    lookup = VectorLookup(fine_tune=fine_tune)
    if width is None:
        return lookup
    projection: Model[list[Floats2d], list[Floats2d]] = with_array(Linear(width))
    model: EmbedModel = chain(lookup, projection)
    model.set_dim("nO", width)
    return model


def VectorLookup(*, fine_tune: bool) -> EmbedModel:
    """Look up the vectors of the vocabulary. A word without one gets zeros.

    fine_tune (bool): Train the vectors of the words of the training data. What is learnt is kept in the layer, as a
        difference to the vector of the vocabulary, which other components may use as well.
    RETURNS (Model): From documents to one (n_tokens, nO) array for each.
    """
    listing: dict[str, Any] = {"learn_vocabulary": learn_vocabulary} if fine_tune else {}
    return Model(
        "vector_lookup",
        forward,
        init=init,
        dims={"nO": None},
        params={"E": None} if fine_tune else {},
        attrs={"listed": numpy.zeros(0, dtype="uint64"), **listing},
    )


def learn_vocabulary(model: EmbedModel, docs: Iterable[Doc]) -> None:
    """List the vectors that occur in the training data.

    model (Model): The layer, before it is initialized.
    docs (Iterable[Doc]): The documents of the training data.
    """
    rows: set[int] = set()
    for doc in docs:
        if doc.vocab.vectors.mode == "default":
            rows.update(find_rows(doc.vocab, doc).tolist())
    model.attrs["listed"] = numpy.array(sorted(rows - {-1}), dtype="uint64")


def init(model: EmbedModel, X: list[Doc] | None = None, Y: Any = None) -> None:
    """Find the width of the vectors."""
    if not X:
        return
    vectors = X[0].vocab.vectors
    width = vectors.shape[1]
    if not width or not vectors.shape[0]:
        raise ValueError(Errors.CRF204)
    if not model.has_dim("nO"):
        model.set_dim("nO", width)
    if "E" in model.param_names:
        model.set_param("E", model.ops.alloc2f(len(model.attrs["listed"]), width))


def forward(
    model: EmbedModel, docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Doc]]]:
    """Look up the vectors of all tokens, and add what was learnt."""
    lengths = [len(doc) for doc in docs]
    if not sum(lengths):
        return [model.ops.alloc2f(0, model.get_dim("nO")) for _ in docs], lambda d_vectors: []
    vocab = docs[0].vocab
    vectors, rows = read_vectors(vocab, docs)
    if vectors.shape[1] != model.get_dim("nO"):
        raise ValueError(Errors.CRF205.format(width=vectors.shape[1], expected=model.get_dim("nO")))
    found = model.ops.asarray2f(vectors)
    if "E" not in model.param_names or not len(model.attrs["listed"]):
        return model.ops.unflatten(found, cast(Ints1d, lengths)), lambda d_vectors: []
    listed = model.attrs["listed"]
    place = find_keys(listed, rows.astype("uint64"))
    tokens = numpy.flatnonzero(place >= 0)
    at_tokens, at_listed = (model.ops.asarray1i(cast(Ints1d, index)) for index in (tokens, place[tokens]))
    learnt = model.get_param("E")
    found[at_tokens] += cast(Floats2d, learnt[at_listed])

    def backprop(d_splits: list[Floats2d]) -> list[Doc]:
        d_vectors = model.ops.as_contig(model.ops.flatten(d_splits))
        d_table = model.ops.alloc2f(*learnt.shape)
        model.ops.scatter_add(d_table, at_listed, d_vectors[at_tokens])
        model.inc_grad("E", d_table)
        return []

    return model.ops.unflatten(found, cast(Ints1d, lengths)), backprop


def find_rows(vocab: Vocab, doc: Doc) -> RowArray:
    """Find the rows of a document's words in the table of vectors.

    vocab (Vocab): The vocabulary with the vectors.
    doc (Doc): The document, or the `WordForms` of some.
    RETURNS (ndarray): The row of each token; -1 where neither the form nor its lower-case form has one.
        (n_tokens,) int64
    """
    vectors = vocab.vectors
    rows = to_numpy(vectors.find(keys=doc.to_array(vectors.attr))).astype("int64")
    if vectors.attr == ORTH:
        missing = numpy.flatnonzero(rows < 0)
        orths = doc.to_array(ORTH)[missing].tolist()
        # get_string_id hashes without adding to the strings of the vocabulary, which would grow with the text.
        lower = [get_string_id(vocab.strings[orth].lower()) for orth in orths]
        rows[missing] = to_numpy(vectors.find(keys=numpy.array(lower, dtype="uint64")))
    return rows


def read_vectors(vocab: Vocab, docs: list[Doc]) -> tuple[Floats2d, RowArray]:
    """Read the vectors of the words of documents.

    vocab (Vocab): The vocabulary with the vectors.
    docs (list[Doc]): The documents, or the `WordForms` of some.
    RETURNS (tuple): The vectors, zeros for a word without one, and their rows.
        (n_tokens, width) float32, (n_tokens,) int64
    """
    vectors = vocab.vectors
    if vectors.mode == "floret":
        keys = numpy.concatenate([doc.to_array(vectors.attr) for doc in docs])
        return vectors.get_batch(keys), numpy.full(len(keys), -1)
    rows = numpy.concatenate([find_rows(vocab, doc) for doc in docs])
    # The table may be on a GPU; what finds its rows is not.
    xp = get_array_module(vectors.data)
    found = vectors.data[xp.asarray(rows)]
    found[xp.asarray(rows < 0)] = 0.0
    return found, rows
