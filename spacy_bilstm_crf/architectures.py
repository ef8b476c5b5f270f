"""Builders of the registered architectures."""

from collections.abc import Sequence

from spacy.tokens import Doc
from thinc.api import Model, chain, concatenate
from thinc.types import Floats2d

from .errors import Errors
from .layers.bilstm_crf import BiLSTMCRFLayer, resize_output
from .layers.char_bilstm import CharBiLSTM
from .layers.char_ngrams import CharNgramEmbed
from .layers.characters import CharCNN
from .layers.hashed_features import HashedFeatures
from .layers.word_form_embed import WordFormEmbed
from .layers.word_vectors import WordVectors
from .types import CRFModel, EmbedModel

DEFAULT_ATTRS: tuple[str | int, ...] = ("NORM", "PREFIX", "SUFFIX", "SHAPE")
DEFAULT_WIDTHS = (32, 8, 16, 16)
DEFAULT_ROWS = (5000, 1000, 2500, 1000)


def build_bilstm_crf_v1(
    tok2vec: Model[list[Doc], list[Floats2d]],
    hidden_width: int = 100,
    depth: int = 1,
    crf: bool = True,
    constrained: bool = True,
    mixed_precision: bool = False,
    lr_scale: float = 1.0,
    nO: int | None = None,
) -> CRFModel:
    """Build a BiLSTM-CRF on word vectors. Registered as `spacy-bilstm-crf.BiLSTMCRF.v1`.

    tok2vec (Model): Gives each token a vector: an embedding of its own, or a listener to a shared one.
    hidden_width (int): Width of the LSTM's state in each direction.
    depth (int): Number of BiLSTM layers. 0: the tags are scored from the word vectors directly.
    crf (bool): Learn scores of moves between tags. False gives a BiLSTM tagger with a softmax for each token.
    constrained (bool): Rule out what the tag scheme forbids, in training and in decoding. False gives a CRF that has
        to learn which moves are legal, as in the original papers. Without `crf` nothing is ruled out.
    mixed_precision (bool): Compute the network in bfloat16 where that is safe; the CRF itself stays wide.
    lr_scale (float): Factor on the learning rate for the BiLSTM-CRF, for a smaller one in an encoder below.
    nO (int | None): Number of tags, set by the pipe.
    RETURNS (Model): From documents to the potentials of the batch.
    RAISES (ValueError): CRF111 if a size is out of range.
    REFERENCE: Huang et al. 2015; Lample et al. 2016
    """
    _check_least(1, hidden_width=hidden_width)
    _check_least(0, depth=depth, lr_scale=lr_scale)
    layer = BiLSTMCRFLayer(
        nI=tok2vec.maybe_get_dim("nO"),
        nO=nO,
        hidden_width=hidden_width,
        depth=depth,
        crf=crf,
        mixed_precision=mixed_precision,
        lr_scale=lr_scale,
    )
    model: CRFModel = chain(tok2vec, layer)
    model.set_ref("tok2vec", tok2vec)
    model.set_ref("output_layer", layer)
    model.attrs["constrained"] = crf and constrained
    # A function of the module: a closure could not be pickled, and in a copy would resize the original.
    model.attrs["resize_output"] = resize_output
    return model


def build_word_form_embed_v1(
    embed: EmbedModel, min_count: int = 0, unseen_rate: float = 0.0, cache_size: int = 20000
) -> EmbedModel:
    """Embed each word form of a batch once. Registered as `spacy-bilstm-crf.WordFormEmbed.v1`.

    embed (Model): An embedding without context, such as `spacy.MultiHashEmbed.v2`.
    min_count (int): How often a word must occur in the training data to be one of its own; rarer and unseen words are
        told apart by shape, affixes and characters alone. 0: every word is its own, for a streamed corpus.
    unseen_rate (float): Share of the other words that training shows as such a word as well.
    cache_size (int): Number of word forms whose vectors are kept between batches at prediction; 0 for none.
    RETURNS (Model): From documents to one array of word vectors for each.
    """
    _check_least(0, min_count=min_count, cache_size=cache_size)
    if not 0.0 <= unseen_rate <= 1.0:
        raise ValueError(Errors.CRF112.format(name="unseen_rate", value=unseen_rate))
    return WordFormEmbed(embed, min_count=min_count, unseen_rate=unseen_rate, cache_size=cache_size)


def build_word_char_embed_v1(
    attrs: Sequence[str | int] = DEFAULT_ATTRS,
    widths: Sequence[int] = DEFAULT_WIDTHS,
    rows: Sequence[int] = DEFAULT_ROWS,
    include_static_vectors: bool = False,
    fine_tune_vectors: bool = True,
    char_filters: int = 30,
    char_width: int = 30,
    min_count: int = 2,
    unseen_rate: float = 0.3,
    cache_size: int = 20000,
) -> EmbedModel:
    """Embed words by hashed features and by a convolution over their characters, each word form of a batch once.

    Registered as `spacy-bilstm-crf.WordCharEmbed.v1`. The vectors of the attributes, the pretrained vector if it is
    asked for, and what `spacy-bilstm-crf.CharCNN.v1` gives stand beside one another, as in the papers: the BiLSTM reads
    them as they are. A layer that mixes them first learns faster and generalises worse.

    attrs (Sequence[str | int]): The token attributes that are hashed.
    widths (Sequence[int]): Width of the vector of each.
    rows (Sequence[int]): Rows of the table of each.
    include_static_vectors (bool): Use the pretrained vectors of the vocabulary as well.
    fine_tune_vectors (bool): Train those of the words of the training data. The vocabulary's own do not change.
    char_filters (int): Filters of the convolution, the width of the part from characters; 0 for no characters.
    char_width (int): Width of the vector of a character.
    min_count (int): How often a word must occur in the training data to be one of its own; rarer and unseen words are
        told apart by shape, affixes and characters alone. 0: every word is its own, for a streamed corpus.
    unseen_rate (float): Share of the other words that training shows as such a word as well.
    cache_size (int): Number of word forms whose vectors are kept between batches at prediction; 0 for none.
    RETURNS (Model): From documents to one array of word vectors for each.
    RAISES (ValueError): CRF111 to CRF113 if a setting is out of range.
    REFERENCE: Ma & Hovy 2016
    """
    _check_least(1, char_width=char_width)
    _check_least(0, char_filters=char_filters)
    parts = [build_hashed_features_v1(attrs, widths, rows)]
    if include_static_vectors:
        parts.append(WordVectors(fine_tune=fine_tune_vectors))
    if char_filters:
        parts.append(CharCNN(width=char_filters, char_width=char_width))
    embed: EmbedModel = concatenate(*parts)
    return build_word_form_embed_v1(embed, min_count=min_count, unseen_rate=unseen_rate, cache_size=cache_size)


def build_hashed_features_v1(
    attrs: Sequence[str | int] = DEFAULT_ATTRS,
    widths: Sequence[int] = DEFAULT_WIDTHS,
    rows: Sequence[int] = DEFAULT_ROWS,
) -> EmbedModel:
    """Embed words by their attributes, the vectors of these beside one another.

    Registered as `spacy-bilstm-crf.HashedFeatures.v1`. Other than in `spacy.MultiHashEmbed.v2`, no layer mixes them.

    attrs (Sequence[str | int]): The token attributes that are hashed.
    widths (Sequence[int]): Width of the vector of each.
    rows (Sequence[int]): Rows of the table of each.
    RETURNS (Model): From documents to one array of word vectors for each.
    RAISES (ValueError): CRF111 if a size is out of range, CRF113 if the lists are not equally long.
    REFERENCE: Svenstrup et al. 2017 (hash embeddings)
    """
    if not attrs or not len(attrs) == len(widths) == len(rows):
        raise ValueError(Errors.CRF113.format(n_attrs=len(attrs), n_widths=len(widths), n_rows=len(rows)))
    _check_least(1, widths=min(widths), rows=min(rows))
    return HashedFeatures(attrs=attrs, widths=widths, rows=rows)


def build_word_vectors_v1(width: int | None = None, fine_tune: bool = True) -> EmbedModel:
    """Embed words by pretrained vectors, found by the exact form and else by the lower-case one.

    Registered as `spacy-bilstm-crf.WordVectors.v1`. The vectors are those of the vocabulary ([initialize] vectors). A
    word without one gets zeros.

    width (int | None): Width that they are mapped to; None for the vectors as they are.
    fine_tune (bool): Train the vectors of the words of the training data. The vocabulary's own do not change.
    RETURNS (Model): From documents to one array of word vectors for each.
    RAISES (ValueError): CRF204 if there are no vectors, CRF205 if they are not those of the training.
    REFERENCE: Collobert et al. 2011
    """
    if width is not None:
        _check_least(1, width=width)
    return WordVectors(width=width, fine_tune=fine_tune)


def build_char_cnn_v1(
    width: int = 30, char_width: int = 30, window_size: int = 1, rows: int = 500, max_length: int = 40
) -> EmbedModel:
    """Embed words by a convolution over their characters. Registered as `spacy-bilstm-crf.CharCNN.v1`.

    width (int): Width of the word's vector, the number of filters.
    char_width (int): Width of a character's vector.
    window_size (int): Characters on each side that a filter sees.
    rows (int): Rows of the hashed table of character vectors.
    max_length (int): A longer word is cut in its middle.
    RETURNS (Model): From documents to one array of word vectors for each.
    REFERENCE: Ma & Hovy 2016
    """
    return CharCNN(width=width, char_width=char_width, window_size=window_size, rows=rows, max_length=max_length)


def build_char_bilstm_v1(
    hidden_width: int = 25, char_width: int = 25, rows: int = 500, max_length: int = 40
) -> EmbedModel:
    """Embed words by a BiLSTM over their characters. Registered as `spacy-bilstm-crf.CharBiLSTM.v1`.

    hidden_width (int): Width of the LSTM's state in each direction, half the width of the word's vector.
    char_width (int): Width of a character's vector.
    rows (int): Rows of the hashed table of character vectors.
    max_length (int): A longer word is cut in its middle.
    RETURNS (Model): From documents to one array of word vectors for each.
    RAISES (ValueError): CRF111 if a size is out of range.
    REFERENCE: Lample et al. 2016
    """
    _check_least(1, hidden_width=hidden_width, char_width=char_width, rows=rows)
    _check_least(2, max_length=max_length)
    return CharBiLSTM(hidden_width=hidden_width, char_width=char_width, rows=rows, max_length=max_length)


def build_char_ngram_embed_v1(
    width: int = 48,
    pair_width: int = 24,
    class_width: int = 8,
    word_width: int = 8,
    min_count: int = 2,
    unknown_rate: float = 0.3,
    unknown_word_rate: float = 0.1,
) -> EmbedModel:
    """Embed characters, pairs, words and classes of them. Registered as `spacy-bilstm-crf.CharNgramEmbed.v1`.

    width (int): Width of the vector of a character.
    pair_width (int): Width of the vector of the pair with the character before, and of that with the one behind.
    class_width (int): Width of the vector of the classes of a character and its neighbours.
    word_width (int): Width of the vectors of the longest listed words that a character begins, ends or is inside of.
    min_count (int): How often a character or pair must occur in the training data to have a vector of its own.
    unknown_rate (float): Share of the pairs that are read as unknown in training.
    unknown_word_rate (float): Share of the words that are overlooked in training.
    RETURNS (Model): From documents to one array of character vectors for each.
    """
    return CharNgramEmbed(
        width=width,
        pair_width=pair_width,
        class_width=class_width,
        word_width=word_width,
        min_count=min_count,
        unknown_rate=unknown_rate,
        unknown_word_rate=unknown_word_rate,
    )


def _check_least(least: int, **settings: float) -> None:
    for name, value in settings.items():
        if value < least:
            raise ValueError(Errors.CRF111.format(name=name, value=value, least=least))
