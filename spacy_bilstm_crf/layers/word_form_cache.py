"""Vectors of word forms that are kept from one batch to the next at prediction."""

import itertools
from typing import Any

import numpy
import torch
from spacy.vocab import Vocab
from thinc.api import Model, PyTorchShim
from thinc.types import Floats2d

from ..types import EmbedModel


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
        self._shims: list[PyTorchShim] = []

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
            self._shims = [shim for node in nodes for shim in node.shims if isinstance(shim, PyTorchShim)]
            self._nodes = nodes
        return self._nodes

    def generation_for(self, embed: EmbedModel, vocab: Vocab, width: int) -> _Generation:
        """Return the vectors that belong to the present weights, forgetting those of others.

        embed (Model): The embedding.
        vocab (Vocab): The vocabulary with the word vectors.
        width (int): Width of a vector.
        RETURNS (_Generation): The cached vectors.
        """
        generation = self.generation
        weights = self._list_weights(embed)
        # Words that get a vector of the table later leave the table as it is.
        samples = [str(getattr(vocab.vectors, "n_keys", 0)).encode()]
        if hasattr(vocab.vectors, "data"):
            weights.append(vocab.vectors.data)
        samples.extend(map(_sample, weights))
        if generation is None or not generation.belongs_to(weights, samples):
            generation = self.generation = _Generation(weights, samples, self.size, width)
        return generation

    def _list_weights(self, embed: EmbedModel) -> list[Any]:
        self.nodes(embed)
        weights = [node.get_param(name) for node, name in self._parameters if node.has_param(name)]
        for shim in self._shims:
            weights.extend(shim._model.parameters() if shim._model is not None else ())
        return weights


def _sample(array: Any) -> bytes:
    # Optimizers write in place. An update reaches every entry of a dense layer, so a few entries give it away.
    array = array.detach().numpy() if isinstance(array, torch.Tensor) else array
    return array.ravel()[:: max(1, array.size // 32)].tobytes()
