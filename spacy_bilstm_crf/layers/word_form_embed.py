"""Embed each distinct word form of a batch once, and remember it across batches at prediction.

In running text half the tokens of a batch repeat another one. What an embedding computes depends on the word form
alone, so it is computed for the distinct forms and gathered.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import numpy
from numpy.typing import NDArray
from spacy.attrs import LOWER, NORM, ORTH, intify_attr
from spacy.tokens import Doc
from spacy.vocab import Vocab
from thinc.api import Model, NumpyOps
from thinc.types import Floats2d

from ..types import EmbedModel, IntArray

KeyArray = NDArray[numpy.uint64]
# Attributes that say which word it is, and not only what it looks like.
_IDENTITY_ATTRS = {NORM, LOWER}
# Stands for the hash of a word that is not known.
_UNKNOWN_WORD = 1


class WordForms:
    """The distinct rows of attributes in a batch, in a shape that embedding layers take for a Doc.

    vocab (Vocab): The vocabulary of the documents.
    attrs (list[int]): IDs of the attributes.
    rows (KeyArray): Their values.
        (n_forms, n_attrs) uint64
    """

    def __init__(self, vocab: Vocab, attrs: list[int], rows: KeyArray) -> None:
        self.vocab = vocab
        self.attrs = attrs
        self.rows = rows

    def __len__(self) -> int:
        """RETURNS (int): Number of distinct forms."""
        return len(self.rows)

    def to_array(self, attrs: int | str | Sequence[int | str]) -> KeyArray:
        """Return attributes of the forms, as `Doc.to_array` does.

        attrs (int | str | Sequence): One attribute or several.
        RETURNS (KeyArray): One value, or one row of values, for each form.
            (n_forms,) or (n_forms, n_attrs) uint64
        """
        if isinstance(attrs, (int, str)):
            return self.rows[:, self.attrs.index(intify_attr(attrs))]
        columns = [self.attrs.index(intify_attr(attr)) for attr in attrs]
        return self.rows[:, columns[0]] if len(columns) == 1 else self.rows[:, columns]

    def to_utf8_array(self, nr_char: int = -1) -> NDArray[Any]:
        """Return the characters of the forms, as `Doc.to_utf8_array` does.

        nr_char (int): Number of bytes for each form; -1 for the longest.
        RETURNS (ndarray): Bytes as spaCy lays them out.
            (n_forms, nr_char) uint8
        """
        return Doc(self.vocab, words=self.texts).to_utf8_array(nr_char=nr_char)

    @property
    def texts(self) -> list[str]:
        """The text of each form."""
        strings = self.vocab.strings
        return [strings[orth] for orth in self.rows[:, self.attrs.index(ORTH)].tolist()]


class _Generation:
    """Cached vectors that belong to one state of the weights.

    A slot is claimed by an atomic counter, filled, and only then published in `slots`, so threads share the object
    without a lock, and a process forked at any moment finds it usable.
    """

    def __init__(self, weights: list[Any], samples: list[bytes], size: int, width: int) -> None:
        # Holding the arrays keeps their memory from being used again, so that their ids tell them apart.
        self.weights = weights
        self.samples = samples
        self.slots: dict[int, int] = {}
        self.vectors = numpy.zeros((size, width), dtype="float32")
        self.counter = itertools.count()

    def belongs_to(self, weights: list[Any], samples: list[bytes]) -> bool:
        """Tell whether the vectors were computed with these weights."""
        return samples == self.samples and list(map(id, weights)) == list(map(id, self.weights))

    def add(self, keys: list[int], vectors: Floats2d) -> bool:
        """Store vectors. Returns whether there was room for all."""
        for key, vector in zip(keys, vectors, strict=True):
            slot = next(self.counter)
            if slot >= len(self.vectors):
                return False
            self.vectors[slot] = vector
            self.slots[key] = slot
        return True


class WordFormCache:
    """Vectors of word forms seen at prediction. Never serialized, and empty in a copy.

    size (int): Number of forms to keep. When it is full, it starts anew.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.generation: _Generation | None = None
        self._nodes: list[Model] = []
        self._parameters: list[tuple[Model, str]] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> "WordFormCache":
        return WordFormCache(self.size)

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return WordFormCache, (self.size,)

    def clear(self) -> None:
        """Forget all vectors."""
        self.generation = None

    def nodes(self, embed: EmbedModel) -> list[Model]:
        """List the layers of the embedding. A walk takes as long as a short document, so it is done once.

        embed (Model): The embedding.
        RETURNS (list[Model]): Its layers.
        """
        if not self._nodes:
            nodes = list(embed.walk())
            self._parameters = [(node, name) for node in nodes for name in node.param_names]
            self._nodes = nodes
        return self._nodes

    def weights(self, embed: EmbedModel, vocab: Vocab) -> list[Any]:
        """List the arrays that the embedding reads.

        embed (Model): The embedding.
        vocab (Vocab): The vocabulary with the word vectors.
        RETURNS (list): The arrays.
        """
        self.nodes(embed)
        weights = [node.get_param(name) for node, name in self._parameters if node.has_param(name)]
        return [*weights, vocab.vectors.data] if hasattr(vocab.vectors, "data") else weights

    def generation_for(self, weights: list[Any], width: int) -> _Generation:
        """Return the vectors that belong to these weights, forgetting those of others.

        weights (list): The arrays the embedding reads.
        width (int): Width of a vector.
        RETURNS (_Generation): The cached vectors.
        """
        generation = self.generation
        samples = [_sample(array) for array in weights]
        if generation is None or not generation.belongs_to(weights, samples):
            generation = self.generation = _Generation(weights, samples, self.size, width)
        return generation


def _sample(array: Any) -> bytes:
    # Optimizers write in place. An update reaches every entry of a dense layer, so a few entries give it away.
    return array.ravel()[:: max(1, array.size // 32)].tobytes()


def WordFormEmbed(
    embed: EmbedModel, *, min_count: int = 1, unseen_rate: float = 0.0, cache_size: int = 20000
) -> EmbedModel:
    """Run an embedding on the distinct word forms of a batch instead of on every token.

    embed (Model): An embedding without context, such as `spacy.MultiHashEmbed.v2`: the vector of a token depends on
        its attributes alone.
    min_count (int): How often a word must occur in the training data to be one of its own. All rarer words look alike
        but for their shape, affixes and characters, and so do words that were never seen.
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
    """List the words that are words of their own.

    model (Model): The layer, before it is initialized.
    docs (Iterable[Doc]): The documents of the training data.
    """
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
    rows = numpy.concatenate([doc.to_array(attrs).reshape(len(doc), len(attrs)) for doc in docs])  # (n_tokens, n_attrs)
    _hide_words(rows, attrs, model.attrs["known"], model.attrs["unseen_rate"] if is_train else 0.0)
    keys, first, form_of = numpy.unique(hash_rows(rows), return_index=True, return_inverse=True)
    forms = WordForms(docs[0].vocab, attrs, rows[first])
    if is_train:
        model.attrs["cache"].clear()
        (vectors,), embed_backprop = model.layers[0]([cast(Doc, forms)], is_train=True)
    else:
        vectors = _embed_with_cache(model, forms, keys)
    form_of = model.ops.asarray1i(form_of)
    splits = cast(list[Floats2d], model.ops.unflatten(vectors[form_of], lengths))

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
            place = numpy.searchsorted(known, column).clip(max=len(known) - 1)
            is_unseen = known[place] != column
            is_unknown = is_unseen if hidden is None else is_unseen | hidden
        if is_unknown is not None:
            column[is_unknown] = _UNKNOWN_WORD


def _embed_with_cache(model: EmbedModel, forms: WordForms, keys: KeyArray) -> Floats2d:
    embed = model.layers[0]
    cache: WordFormCache = model.attrs["cache"]
    if not cache.size or not isinstance(model.ops, NumpyOps):
        return embed.predict([cast(Doc, forms)])[0]
    generation = cache.generation_for(cache.weights(embed, forms.vocab), model.get_dim("nO"))
    slots = numpy.fromiter((generation.slots.get(key, -1) for key in keys.tolist()), dtype="int64", count=len(keys))
    unseen = numpy.flatnonzero(slots < 0)
    vectors = generation.vectors[slots]
    if len(unseen):
        new_forms = WordForms(forms.vocab, forms.attrs, forms.rows[unseen])
        vectors[unseen] = embed.predict([cast(Doc, new_forms)])[0]
        if not generation.add(keys[unseen].tolist(), vectors[unseen]):
            cache.clear()
    return vectors


def read_attrs(nodes: list[Model], vocab: Vocab | None = None) -> list[int]:
    """List the token attributes that an embedding reads.

    They are the text itself, what word vectors are looked up by, and those of its feature extractors.

    nodes (list[Model]): The layers of the embedding.
    vocab (Vocab | None): The vocabulary with the word vectors, if there are any.
    RETURNS (list[int]): Attribute IDs, each once.
    """
    columns = [intify_attr(attr) for node in nodes for attr in node.attrs.get("columns", ())]
    return list(dict.fromkeys([ORTH, getattr(getattr(vocab, "vectors", None), "attr", ORTH), *columns]))


def hash_rows(rows: KeyArray) -> KeyArray:
    """Hash rows of attribute values to one key each.

    rows (KeyArray): Values, most of them hashes of 64 bits already.
        (n_rows, n_attrs) uint64
    RETURNS (KeyArray): The keys.
        (n_rows,) uint64
    """
    keys = numpy.zeros(len(rows), dtype="uint64")
    for column in rows.T:
        # Multiply and fold, so that equal values in two columns do not cancel.
        keys = (keys ^ column) * numpy.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> numpy.uint64(32)
    return keys


def cached_forms(model: EmbedModel) -> int:
    """Return how many word forms the cache holds.

    model (Model): A `WordFormEmbed` layer.
    RETURNS (int): The number of forms.
    """
    generation = cast(IntArray | None, model.attrs["cache"].generation)
    return len(generation.slots) if generation is not None else 0
