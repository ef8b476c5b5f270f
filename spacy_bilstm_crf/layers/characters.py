"""Vectors of words from their characters, for any script."""

from collections.abc import Callable
from typing import Any, cast

from spacy.attrs import ORTH
from spacy.tokens import Doc
from thinc.api import HashEmbed, Maxout, Model, chain, expand_window, reduce_max, with_array
from thinc.types import Floats2d, Ints1d, Ragged

from ..types import EmbedModel

# Not code points: no text holds them.
_WORD_START, _WORD_END = 0x110000, 0x110001


def CharCNN(
    *, width: int = 30, char_width: int = 30, window_size: int = 1, rows: int = 500, max_length: int = 40
) -> EmbedModel:
    """Embed words with a convolution over their characters and the maximum over its positions.

    width (int): Width of the word's vector, the number of filters.
    char_width (int): Width of a character's vector.
    window_size (int): Characters on each side that a filter sees.
    rows (int): Rows of the hashed table of character vectors.
    max_length (int): A longer word is cut in its middle.
    RETURNS (Model): From documents to one (n_tokens, width) array for each.
    REFERENCE: Ma & Hovy 2016
    """
    n_window = 2 * window_size + 1
    encode: Model[Ragged, Floats2d] = chain(
        with_array(HashEmbed(char_width, rows, seed=11, dropout=0.0)),
        expand_window(window_size),
        with_array(Maxout(width, char_width * n_window, nP=2)),
        reduce_max(),
    )
    return embed_by_word("char_cnn", encode, width, max_length)


def embed_by_word(name: str, encode: Model[Ragged, Floats2d], width: int, max_length: int) -> EmbedModel:
    """Embed words by what a model makes of their characters.

    name (str): Name of the layer.
    encode (Model): From characters, one piece for each word, to a vector for each.
    width (int): Width of a word's vector.
    max_length (int): A longer word is cut in its middle.
    RETURNS (Model): From documents to one (n_tokens, width) array for each.
    """
    return Model(name, forward, init=init, layers=[encode], dims={"nO": width}, attrs={"max_length": max_length})


def init(model: EmbedModel, X: list[Doc] | None = None, Y: Any = None) -> None:
    """Initialize the layers over characters."""
    model.layers[0].initialize(X=extract_characters(model, X) if X else None)


def forward(
    model: EmbedModel, docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list[Doc]]]:
    """Encode the characters of all tokens and hand each document its part."""
    lengths = [len(doc) for doc in docs]
    if not sum(lengths):
        return [model.ops.alloc2f(0, model.get_dim("nO")) for _ in docs], lambda d_vectors: []
    vectors, encode_backprop = model.layers[0](extract_characters(model, docs), is_train)

    def backprop(d_splits: list[Floats2d]) -> list[Doc]:
        encode_backprop(model.ops.as_contig(model.ops.flatten(d_splits)))
        return []

    return model.ops.unflatten(vectors, cast(Ints1d, lengths)), backprop


def extract_characters(model: EmbedModel, docs: list[Doc]) -> Ragged:
    """Read the characters of each token, between marks of its start and end.

    model (Model): The layer, for its ops and the longest word to read.
    docs (list[Doc]): The documents, or the `WordForms` of some.
    RETURNS (Ragged): Code points, one piece for each token.
        (n_characters,) uint64
    """
    half = model.attrs["max_length"] // 2
    codes: list[int] = []
    lengths = []
    for doc in docs:
        strings = doc.vocab.strings
        for orth in doc.to_array(ORTH).tolist():
            text = strings[orth]
            if len(text) > 2 * half:
                text = text[:half] + text[-half:]
            codes.extend((_WORD_START, *map(ord, text), _WORD_END))
            lengths.append(len(text) + 2)
    characters = cast(Ints1d, model.ops.xp.asarray(codes, dtype="uint64"))
    return Ragged(characters, model.ops.asarray1i(lengths))
