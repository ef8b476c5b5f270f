"""Vectors of words from their attributes, each hashed to a table of its own."""

from collections.abc import Sequence
from functools import partial

from spacy.ml.featureextractor import FeatureExtractor
from thinc.api import HashEmbed, Model, chain, concatenate, with_array
from thinc.initializers import uniform_init
from thinc.types import Floats2d, Ints2d

from ..types import EmbedModel

# A vector is the sum of four rows, so its values start out with a standard deviation of 0.6, near that of pretrained
# vectors, which stand beside it without a layer between.
_INITIAL_RANGE = 0.5


def HashedFeatures(*, attrs: Sequence[str | int], widths: Sequence[int], rows: Sequence[int]) -> EmbedModel:
    """Embed words by their attributes, the vectors of these beside one another.

    Other than in `spacy.MultiHashEmbed.v2`, no layer mixes the attributes, and each has a width of its own.

    attrs (Sequence[str | int]): The token attributes.
    widths (Sequence[int]): Width of the vector of each.
    rows (Sequence[int]): Rows of the table of each.
    RETURNS (Model): From documents to one (n_tokens, sum of widths) array for each.
    REFERENCE: Svenstrup et al. 2017 (hash embeddings)
    """
    init = partial(uniform_init, lo=-_INITIAL_RANGE, hi=_INITIAL_RANGE)
    tables: list[Model[Ints2d, Floats2d]] = [
        HashEmbed(width, n_rows, column=column, seed=7 + column, dropout=0.0, initializer=init)
        for column, (width, n_rows) in enumerate(zip(widths, rows, strict=True))
    ]
    model: EmbedModel = chain(FeatureExtractor(list(attrs)), with_array(concatenate(*tables)))
    model.set_dim("nO", sum(widths))
    return model
