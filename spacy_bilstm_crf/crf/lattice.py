"""The lattice that sums over paths run on: potentials with START and END."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from .potentials import Potentials, at_least_float32, wide_dtype


class Lattice(NamedTuple):
    """Time-major scores with an END tag behind the last tag and an END step behind the last token.

    END scores 0 from a document's end on and -inf before. So padding needs no mask, documents of all lengths finish in
    one cell, and end transitions are one more column of the matrix of moves.

    emissions (Tensor): -inf for what is not possible.
        (n_tokens + 1, n_docs, n_tags + 1), float
    moves (Tensor): From each tag, from END and, in the last row, from START.
        (n_tags + 2, n_tags + 1), float64 where the device has it
    padding (Tensor): True behind the end of a document.
        (n_tokens + 1, n_docs), bool
    raw (Tensor): The emissions as they came: a quick look at them bounds what is above.
        (n_docs, n_tokens, n_tags), float
    """

    emissions: Tensor
    moves: Tensor
    padding: Tensor
    raw: Tensor


def padding_mask(lengths: Tensor, n_tokens: int) -> Tensor:
    """Find the padding.

    lengths (Tensor): Number of tokens of each document.
        (n_docs,), int64
    n_tokens (int): Number of rows.
    RETURNS (Tensor): True behind the end of a document.
        (n_tokens, n_docs), bool
    """
    return torch.arange(n_tokens, device=lengths.device).unsqueeze(1) >= lengths


def build_lattice(potentials: Potentials, possible_tags: Tensor | None) -> Lattice:
    """Append START and END, blank the padding and whatever is not possible.

    potentials (Potentials): The potentials.
    possible_tags (Tensor | None): True where a tag is possible, None if all are.
        (n_docs, n_tokens, n_tags), bool
    RETURNS (Lattice): The lattice, in fresh memory. Emissions keep their type if that is at least float32.
    """
    _, n_tokens, n_tags = potentials.emissions.shape
    padding = padding_mask(potentials.lengths, n_tokens + 1)
    emissions = potentials.emissions.transpose(0, 1).to(at_least_float32(potentials))
    if possible_tags is not None:
        emissions = emissions.masked_fill(~possible_tags.transpose(0, 1), float("-inf"))
    emissions = functional.pad(emissions, (0, 1, 0, 0, 0, 1), value=float("-inf"))
    emissions.masked_fill_(padding.unsqueeze(2), float("-inf"))
    emissions.select(2, n_tags).masked_fill_(padding, 0.0)
    return Lattice(emissions, move_scores(potentials), padding, potentials.emissions)


def select_docs(lattice: Lattice, docs: Tensor) -> Lattice:
    """Keep some documents of a batch.

    lattice (Lattice): The lattice of the batch.
    docs (Tensor): Indices of the documents.
        (n_selected,), int64
    RETURNS (Lattice): The smaller lattice.
    """
    return Lattice(lattice.emissions[:, docs], lattice.moves, lattice.padding[:, docs], lattice.raw[docs])


def move_scores(potentials: Potentials) -> Tensor:
    """Put transition, start and end scores into one matrix.

    potentials (Potentials): The potentials.
    RETURNS (Tensor): Scores of all moves. From END on, and in documents of length 0 from START, there is only END.
        (n_tags + 2, n_tags + 1), float64 where the device has it, [from, to]
    """
    n_tags = len(potentials.transitions)
    dtype = wide_dtype(potentials.transitions.device)
    moves = potentials.transitions.new_full((n_tags + 2, n_tags + 1), float("-inf"), dtype=dtype)
    moves[:n_tags, :n_tags] = potentials.transitions
    moves[:n_tags, n_tags] = potentials.end_transitions
    moves[n_tags + 1, :n_tags] = potentials.start_transitions
    moves[n_tags:, n_tags] = 0.0
    return moves


def path_moves(lattice: Lattice, tags: Tensor) -> tuple[Tensor, Tensor]:
    """Write tag paths in terms of the lattice.

    lattice (Lattice): The lattice.
    tags (Tensor): One path per document; the padding may hold anything.
        (n_docs, n_tokens), int64
    RETURNS (tuple[Tensor, Tensor]): The paths, END in the padding, and their moves as positions in the flattened
        matrix of moves.
        (n_tokens, n_docs), int64, and (n_tokens + 1, n_docs), int64
    """
    end = lattice.moves.shape[1] - 1
    path = functional.pad(tags.t().masked_fill(lattice.padding[:-1], end), (0, 0, 1, 1), value=end)
    path[0] = end + 1
    return path[1:-1], (path[:-1] * (end + 1)).add_(path[1:])


def score_path(lattice: Lattice, path: Tensor, moves: Tensor) -> Tensor:
    """Add up the scores of paths.

    lattice (Lattice): The lattice.
    path (Tensor): Tags, from `path_moves`.
        (n_tokens, n_docs), int64
    moves (Tensor): Moves between them, from `path_moves`.
        (n_tokens + 1, n_docs), int64
    RETURNS (Tensor): The scores, in nats; -inf for impossible paths.
        (n_docs,), float64 where the device has it
    """
    emitted = lattice.emissions[:-1].gather(2, path.unsqueeze(2)).sum(dim=(0, 2), dtype=lattice.moves.dtype)
    return lattice.moves.take(moves).sum(dim=0).add_(emitted)
