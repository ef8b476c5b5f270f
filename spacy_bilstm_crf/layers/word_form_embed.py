"""Embed each distinct word form of a batch once, and remember it across batches at prediction.

In running text half the tokens of a batch repeat another one. What an embedding computes depends on the word form
alone, so it is computed for the distinct forms and gathered.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy
from spacy.attrs import LOWER, NORM
from spacy.tokens import Doc
from thinc.api import Model, NumpyOps
from thinc.types import Floats2d, Ints1d

from ..types import EmbedModel
from .word_form_cache import WordFormCache
from .word_forms import KeyArray, WordForms, find_keys, hash_rows, read_attrs

# Attributes that say which word it is, and not only what it looks like.
_IDENTITY_ATTRS = {NORM, LOWER}
# Stands for the hash of a word that is not known.
_UNKNOWN_WORD = 1


def WordFormEmbed(
    embed: EmbedModel, *, min_count: int = 0, unseen_rate: float = 0.0, cache_size: int = 20000
) -> EmbedModel:
    """Run an embedding on the distinct word forms of a batch instead of on every token.

    embed (Model): An embedding without context, such as `spacy.MultiHashEmbed.v2`: the vector of a token depends on
        its attributes alone.
    min_count (int): How often a word must occur in the training data to be one of its own. All rarer words look alike
        but for their shape, affixes and characters, and so do words that were never seen. 0: every word is its own,
        for a corpus that is streamed and not seen whole before training, and for a model that is to learn new words.
    unseen_rate (float): Share of the other words that training shows as such a word as well.
    cache_size (int): Number of word forms whose vectors are kept between batches at prediction on a CPU; 0 for none.
    RETURNS (Model): From documents to one (n_tokens, nO) array for each.
    """
    return Model(
        "word_form_embed",
        forward,
        init=init,
        layers=[embed],
        dims={"nO": embed.maybe_get_dim("nO")},
        attrs={
            "cache": WordFormCache(cache_size),
            "min_count": min_count,
            "unseen_rate": unseen_rate,
            "known": numpy.zeros(0, dtype="uint64"),
            "learn_vocabulary": learn_vocabulary,
        },
        refs={"embed": embed},
    )


def learn_vocabulary(model: EmbedModel, docs: Iterable[Doc]) -> None:
    """List the words that are words of their own. With a `min_count` of 0 every word is, and there is no list.

    model (Model): The layer, before it is initialized.
    docs (Iterable[Doc]): The documents of the training data.
    """
    if not model.attrs["min_count"]:
        return
    counts: Counter[int] = Counter()
    for attr in _IDENTITY_ATTRS & set(read_attrs(list(model.layers[0].walk()))):
        counts.update(key for doc in docs for key in doc.to_array(attr).tolist())
    known = sorted(key for key, n_times in counts.items() if n_times >= model.attrs["min_count"])
    model.attrs["known"] = numpy.array(known, dtype="uint64")


def init(model: EmbedModel, X: list[Doc] | None = None, Y: Any = None) -> None:
    """Initialize the embedding and find its width."""
    embed = model.layers[0]
    embed.initialize(X=X)
    model.attrs["cache"].clear()
    if model.has_dim("nO") is None:
        width = embed.maybe_get_dim("nO")
        if width is None and X:
            width = embed.predict(X[:1])[0].shape[1]
        if width is not None:
            model.set_dim("nO", width)


def forward(
    model: EmbedModel, docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Doc]]]:
    """Embed the distinct forms and give every token the vector of its form."""
    lengths = [len(doc) for doc in docs]
    if not sum(lengths):
        return [model.ops.alloc2f(0, model.get_dim("nO")) for _ in docs], lambda d_vectors: []
    attrs = read_attrs(model.attrs["cache"].nodes(model.layers[0]), docs[0].vocab)
    # A single attribute comes as a flat array.
    columns = cast(list[int | str], attrs)
    rows = numpy.concatenate([doc.to_array(columns).reshape(len(doc), len(attrs)) for doc in docs])
    _hide_words(rows, attrs, model.attrs["known"], model.attrs["unseen_rate"] if is_train else 0.0)
    keys, first, inverse = numpy.unique(hash_rows(rows), return_index=True, return_inverse=True)
    forms = WordForms(docs[0].vocab, attrs, rows[first])
    if is_train:
        model.attrs["cache"].clear()
        (vectors,), embed_backprop = model.layers[0]([cast(Doc, forms)], is_train=True)
    else:
        vectors = _embed_with_cache(model, forms, keys)
    form_of = model.ops.asarray1i(cast(Ints1d, inverse))
    splits = cast(list[Floats2d], model.ops.unflatten(vectors[form_of], cast(Ints1d, lengths)))

    def backprop(d_splits: list[Floats2d]) -> list[Doc]:
        d_tokens = model.ops.as_contig(model.ops.flatten(d_splits))
        d_vectors = model.ops.alloc2f(len(forms), d_tokens.shape[1])
        model.ops.scatter_add(d_vectors, form_of, d_tokens)
        embed_backprop([d_vectors])
        return []

    return splits, backprop


def _hide_words(rows: KeyArray, attrs: list[int], known: KeyArray, rate: float) -> None:
    """Make words that are not known look alike, and others at random."""
    # The global state is what spaCy seeds.
    hidden = numpy.random.random(len(rows)) < rate if rate else None  # noqa: NPY002
    for attr in _IDENTITY_ATTRS & set(attrs):
        column = rows[:, attrs.index(attr)]
        is_unknown = hidden
        if len(known):
            is_unseen = find_keys(known, column) < 0
            is_unknown = is_unseen if hidden is None else is_unseen | hidden
        if is_unknown is not None:
            column[is_unknown] = _UNKNOWN_WORD


def _embed_with_cache(model: EmbedModel, forms: WordForms, keys: KeyArray) -> Floats2d:
    embed = model.layers[0]
    cache: WordFormCache = model.attrs["cache"]
    if not cache.size or not isinstance(model.ops, NumpyOps):
        return embed.predict([cast(Doc, forms)])[0]
    generation = cache.generation_for(embed, forms.vocab, model.get_dim("nO"))
    slots = numpy.fromiter((generation.slots.get(key, -1) for key in keys.tolist()), dtype="int64", count=len(keys))
    unseen = numpy.flatnonzero(slots < 0)
    vectors = generation.vectors[slots]
    if len(unseen):
        new_forms = WordForms(forms.vocab, forms.attrs, forms.rows[unseen])
        vectors[unseen] = embed.predict([cast(Doc, new_forms)])[0]
        if not generation.add(keys[unseen].tolist(), vectors[unseen]):
            cache.clear()
    return vectors


def cached_forms(model: EmbedModel) -> int:
    """Return how many word forms the cache holds.

    model (Model): A `WordFormEmbed` layer.
    RETURNS (int): The number of forms.
    """
    cache: WordFormCache = model.attrs["cache"]
    return len(cache.generation.slots) if cache.generation is not None else 0
