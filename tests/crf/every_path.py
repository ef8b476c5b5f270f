"""The CRF by looking at every path there is, in float64 and with autograd. Written for clarity rather than speed."""

import itertools
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from spacy_bilstm_crf import crf
from spacy_bilstm_crf.tag_scheme import TagScheme

# Scheme and labels, at most five tags each.
SCHEMES = {
    "BIO": (TagScheme("BIO"), ["A", "B"]),
    "BIOES": (TagScheme("BIOES"), ["A"]),
    "IO": (TagScheme("IO"), ["A", "B", "C", "D"]),
    "BMES": (TagScheme("BMES"), ["A"]),
    "segmenter": (TagScheme("BMES", outside=False), [""]),
}


class Paths(NamedTuple):
    """The possible paths of a document, best first.

    tags: (n_paths, n_tokens), int64
    scores: (n_paths,), float64
    """

    tags: Tensor
    scores: Tensor

    @property
    def log_partition(self):
        return self.scores.logsumexp(0)

    @property
    def probs(self):
        return self.scores.softmax(0)

    def marginals(self, n_tags):
        one_hot = torch.nn.functional.one_hot(self.tags, n_tags)
        return (self.probs.view(-1, 1, 1) * one_hot).sum(0)


@lru_cache
def list_tags(n_tags: int, n_tokens: int) -> Tensor:
    paths = list(itertools.product(range(n_tags), repeat=n_tokens))
    return torch.tensor(paths, dtype=torch.int64).view(n_tags**n_tokens, n_tokens)


def list_paths(potentials: crf.Potentials, doc: int, possible: Tensor | None = None) -> Paths:
    """Score all paths of a document and drop the impossible ones."""
    emissions, lengths, transitions, start, end = (part.double() for part in potentials)
    n_tokens = int(lengths[doc])
    tags = list_tags(emissions.shape[2], n_tokens)
    scores = torch.zeros(len(tags), dtype=torch.float64)
    for token in range(n_tokens):
        scores = scores + emissions[doc, token][tags[:, token]]
        if possible is not None:
            scores = scores.masked_fill(~possible[doc, token][tags[:, token]], -torch.inf)
        if token:
            scores = scores + transitions[tags[:, token - 1], tags[:, token]]
    if n_tokens:
        scores = scores + start[tags[:, 0]] + end[tags[:, -1]]
    # Gradients of -inf would be NaN.
    order = scores.detach().argsort(descending=True, stable=True)
    order = order[scores.detach()[order] > -torch.inf]
    return Paths(tags[order], scores[order])


def draw_potentials(
    lengths: list[int],
    n_tags: int,
    *,
    seed: int = 0,
    spread: float = 1.0,
    forbidden: float = 0.0,
    scheme: str | None = None,
    dtype: torch.dtype = torch.float64,
    padding: float = float("nan"),
) -> crf.Potentials:
    """Random scores, with moves forbidden at random or by a scheme, and NaN in the padding."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return (spread * torch.randn(*shape, generator=generator, dtype=torch.float64)).to(dtype)

    emissions = draw(len(lengths), max(lengths, default=0), n_tags)
    for doc, length in enumerate(lengths):
        emissions[doc, length:] = padding
    moves = [draw(n_tags, n_tags), draw(n_tags), draw(n_tags)]
    if scheme is not None:
        tag_scheme, labels = SCHEMES[scheme]
        masks = tag_scheme.allowed_transitions(labels)
        moves = [crf.constrain(scores, torch.from_numpy(mask)) for scores, mask in zip(moves, masks, strict=True)]
    elif forbidden:
        moves = [crf.constrain(scores, torch.rand(scores.shape, generator=generator) >= forbidden) for scores in moves]
    return crf.Potentials(emissions, torch.tensor(lengths, dtype=torch.int64), *moves)


def draw_scheme(scheme: str, lengths: list[int], **settings) -> crf.Potentials:
    """Random scores for the tags of a scheme, hard constraints included."""
    tag_scheme, labels = SCHEMES[scheme]
    return draw_potentials(lengths, len(tag_scheme.tags(labels)), scheme=scheme, **settings)


def draw_masks(potentials: crf.Potentials, *, seed: int = 0, closed: float = 0.3) -> tuple[Tensor, Tensor, Tensor]:
    """Random possible tags, allowed tags among them, and a path that both leave open in each document."""
    generator = torch.Generator().manual_seed(seed)
    shape = potentials.emissions.shape
    possible = torch.rand(shape, generator=generator) >= closed
    allowed = torch.rand(shape, generator=generator) >= closed
    gold = torch.full(shape[:2], -1, dtype=torch.int64)
    for doc, length in enumerate(potentials.lengths.tolist()):
        paths = list_paths(potentials, doc).tags
        gold[doc, :length] = paths[int(torch.randint(len(paths), (1,), generator=generator))]
        cells = (doc, torch.arange(length), gold[doc, :length])
        possible[cells] = allowed[cells] = True
    return possible, allowed & possible, gold


def has_paths(potentials: crf.Potentials) -> bool:
    """Say whether each document has a path."""
    return all(len(list_paths(potentials, doc).tags) for doc in range(len(potentials.lengths)))


def assert_close(received, expected, dtype: torch.dtype) -> None:
    """Compare within what a dtype must reach, relative where values are large."""
    tolerance = 1e-9 if dtype == torch.float64 else 1e-4
    received, expected = (torch.as_tensor(value).detach().double() for value in (received, expected))
    torch.testing.assert_close(received, expected, rtol=tolerance, atol=tolerance)
