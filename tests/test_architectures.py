"""The registered architectures."""

import numpy
import pytest
import spacy
from spacy.util import registry
from thinc.api import Config

from spacy_bilstm_crf.architectures import (
    build_bilstm_crf_v1,
    build_char_bilstm_v1,
    build_word_char_embed_v1,
    build_word_form_embed_v1,
)
from spacy_bilstm_crf.types import CRFPotentials

EMBED = {"@architectures": "spacy.MultiHashEmbed.v2", "width": 8, "attrs": ["NORM"], "rows": [50]}
EMBED["include_static_vectors"] = False


def make_embed(cache_size=100):
    return build_word_form_embed_v1(registry.resolve({"embed": EMBED})["embed"], cache_size=cache_size)


def make_docs():
    nlp = spacy.blank("en")
    return [nlp.make_doc("one two three"), nlp.make_doc(""), nlp.make_doc("four")]


@pytest.mark.parametrize(
    ("name", "builder"),
    [
        ("spacy-bilstm-crf.BiLSTMCRF.v1", build_bilstm_crf_v1),
        ("spacy-bilstm-crf.WordFormEmbed.v1", build_word_form_embed_v1),
    ],
)
def test_names_are_registered(name, builder):
    assert registry.architectures.get(name) is builder


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_documents_become_potentials(depth):
    model = build_bilstm_crf_v1(make_embed(), hidden_width=5, depth=depth, nO=4)
    docs = make_docs()
    model.initialize(X=docs)
    potentials = model.predict(docs)
    assert isinstance(potentials, CRFPotentials)
    assert potentials.emissions.shape == (4, 4)
    assert potentials.lengths.tolist() == [3, 0, 1]


def test_models_have_the_references_that_spacy_looks_for():
    tok2vec = make_embed()
    model = build_bilstm_crf_v1(tok2vec)
    assert model.get_ref("tok2vec") is tok2vec
    assert model.get_ref("output_layer") is model.layers[-1]
    assert "resize_output" in model.attrs


@pytest.mark.parametrize(
    ("crf", "constrained", "expected"),
    [(True, True, True), (True, False, False), (False, True, False), (False, False, False)],
)
def test_nothing_is_ruled_out_without_a_crf(crf, constrained, expected):
    model = build_bilstm_crf_v1(make_embed(), crf=crf, constrained=constrained)
    assert model.attrs["constrained"] is expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden_width": 0}, "hidden_width .* 0"),
        ({"depth": -1}, "depth .* -1"),
        ({"lr_scale": -1.0}, "lr_scale .* -1"),
    ],
)
def test_sizes_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=rf"CRF111.*{message}.*check \[model\]"):
        build_bilstm_crf_v1(make_embed(), **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"widths": [32, 0, 16, 16]}, r"CRF111.*widths was 0"),
        ({"rows": [100, 100, 0, 100]}, r"CRF111.*rows was 0"),
        ({"char_width": 0}, r"CRF111.*char_width was 0"),
        ({"char_filters": -1}, r"CRF111.*char_filters was -1"),
        ({"min_count": -1}, r"CRF111.*min_count was -1"),
        ({"cache_size": -5}, r"CRF111.*cache_size was -5"),
        ({"unseen_rate": 2.0}, r"CRF112.*unseen_rate was 2.0"),
        ({"attrs": [], "widths": [], "rows": []}, r"CRF113.*0 attributes"),
        ({"rows": [10]}, r"CRF113.*4 attributes, 4 widths and 1 numbers"),
        ({"widths": [10]}, r"CRF113.*4 attributes, 1 widths and 4 numbers"),
    ],
)
def test_settings_of_the_embedding_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        build_word_char_embed_v1(**settings)


@pytest.mark.parametrize("name", ["hidden_width", "char_width", "rows", "max_length"])
def test_sizes_of_characters_out_of_range_are_refused(name):
    with pytest.raises(ValueError, match=rf"CRF111.*{name} was 0"):
        build_char_bilstm_v1(**{name: 0})


WITH_MIXED = """
        [model.tok2vec.embed.*.words]
        @architectures = "spacy.MultiHashEmbed.v2"
        width = 8
        attrs = ["NORM"]
        rows = [50]
        include_static_vectors = false
        """
WITH_BESIDE = """
        [model.tok2vec.embed.*.words]
        @architectures = "spacy-bilstm-crf.HashedFeatures.v1"
        attrs = ["NORM", "SHAPE"]
        widths = [6, 2]
        rows = [50, 50]
        """


@pytest.mark.parametrize("words", [WITH_MIXED, WITH_BESIDE])
def test_characters_of_a_config_go_beside_any_embedding(words):
    config = Config().from_str(
        """
        [model]
        @architectures = "spacy-bilstm-crf.BiLSTMCRF.v1"
        [model.tok2vec]
        @architectures = "spacy-bilstm-crf.WordFormEmbed.v1"
        [model.tok2vec.embed]
        @layers = "concatenate.v1"
        """
        + words
        + """
        [model.tok2vec.embed.*.characters]
        @architectures = "spacy-bilstm-crf.CharBiLSTM.v1"
        hidden_width = 3
        """
    )
    tok2vec = registry.resolve(config)["model"].get_ref("tok2vec")
    docs = make_docs()
    tok2vec.initialize(X=docs)
    assert [vectors.shape for vectors in tok2vec.predict(docs)] == [(3, 14), (0, 14), (1, 14)]


def test_a_config_resolves_with_its_defaults():
    config = Config().from_str(
        """
        [model]
        @architectures = "spacy-bilstm-crf.BiLSTMCRF.v1"
        [model.tok2vec]
        @architectures = "spacy-bilstm-crf.WordFormEmbed.v1"
        [model.tok2vec.embed]
        @architectures = "spacy.MultiHashEmbed.v2"
        width = 8
        attrs = ["NORM"]
        rows = [50]
        include_static_vectors = false
        """
    )
    filled = registry.fill(config)["model"]
    assert filled["hidden_width"] == 100
    assert filled["depth"] == 1
    assert filled["crf"] is filled["constrained"] is True
    assert filled["mixed_precision"] is False
    assert registry.resolve(config)["model"].layers[-1].name == "bilstm_crf"


@pytest.mark.parametrize("name", ["spacy.HashEmbedCNN.v2", "spacy.Tok2Vec.v2"])
def test_any_tok2vec_goes_in_front(name):
    if name == "spacy.Tok2Vec.v2":
        encode = {"@architectures": "spacy.MaxoutWindowEncoder.v2", "width": 8, "depth": 1, "window_size": 1}
        tok2vec = {"@architectures": name, "embed": EMBED, "encode": {**encode, "maxout_pieces": 2}}
    else:
        tok2vec = {"@architectures": name, "width": 8, "depth": 1, "embed_size": 50, "window_size": 1}
        tok2vec |= {"maxout_pieces": 2, "subword_features": True, "pretrained_vectors": None}
    model = build_bilstm_crf_v1(registry.resolve({"tok2vec": tok2vec})["tok2vec"], hidden_width=5, nO=4)
    docs = make_docs()
    model.initialize(X=docs)
    potentials, backprop = model.begin_update(docs)
    backprop(potentials)
    assert numpy.isfinite(potentials.emissions).all()


@pytest.mark.parametrize("cache_size", [0, 100])
def test_the_cache_size_is_the_configs(cache_size):
    assert make_embed(cache_size).attrs["cache"].size == cache_size
