"""The lattice that sums over paths run on: potentials with START and END."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from .potentials import Potentials


class Lattice(NamedTuple):
    """Time-major scores with an END tag behind the last tag and an END step behind the last token.

    END scores 0 from a document's end on and -inf before. So padding needs no mask, documents of all lengths finish in
    one cell, and end transitions are one more column of the matrix of moves.

    emissions (Tensor): (n_tokens + 1, n_docs, n_tags + 1), float
    moves (Tensor): From each tag, from END and, in the last row, from START.
        (n_tags + 2, n_tags + 1), float
    padding (Tensor): True behind the end of a document.
        (n_tokens + 1, n_docs), bool
    """

    emissions: Tensor
    moves: Tensor
    padding: Tensor


def padding_mask(potentials: Potentials, n_tokens: int) -> Tensor:
    """Find the padding.

    potentials (Potentials): The potentials.
    n_tokens (int): Number of rows.
    RETURNS (Tensor): True behind the end of a document.
        (n_tokens, n_docs), bool
    """
    return torch.arange(n_tokens, device=potentials.lengths.device).unsqueeze(1) >= potentials.lengths


def build_lattice(potentials: Potentials, possible_tags: Tensor | None, dtype: torch.dtype) -> Lattice:
    """Append START and END, blank the padding and whatever is not possible.

    potentials (Potentials): The potentials.
    possible_tags (Tensor | None): True where a tag is possible, None if all are.
        (n_docs, n_tokens, n_tags), bool
    dtype (torch.dtype): Type of the result.
    RETURNS (Lattice): The lattice, in fresh memory.
    """
    _, n_tokens, n_tags = potentials.emissions.shape
    padding = padding_mask(potentials, n_tokens + 1)
    emissions = potentials.emissions.transpose(0, 1).to(dtype)
    if possible_tags is not None:
        emissions = emissions.masked_fill(~possible_tags.transpose(0, 1), float("-inf"))
    emissions = functional.pad(emissions, (0, 1, 0, 0, 0, 1), value=float("-inf"))
    emissions.masked_fill_(padding.unsqueeze(2), float("-inf"))
    emissions[:, :, n_tags].masked_fill_(padding, 0.0)
    return Lattice(emissions, move_scores(potentials, dtype), padding)


def move_scores(potentials: Potentials, dtype: torch.dtype) -> Tensor:
    """Put transition, start and end scores into one matrix.

    potentials (Potentials): The potentials.
    dtype (torch.dtype): Type of the result.
    RETURNS (Tensor): Scores of all moves. From END on, and in documents of length 0 from START, there is only END.
        (n_tags + 2, n_tags + 1), float, [from, to]
    """
    n_tags = len(potentials.transitions)
    moves = potentials.transitions.new_full((n_tags + 2, n_tags + 1), float("-inf"), dtype=dtype)
    moves[:n_tags, :n_tags] = potentials.transitions
    moves[:n_tags, n_tags] = potentials.end_transitions
    moves[n_tags + 1, :n_tags] = potentials.start_transitions
    moves[n_tags:, n_tags] = 0.0
    return moves


def path_moves(potentials: Potentials, tags: Tensor) -> tuple[Tensor, Tensor]:
    """Write tag paths in terms of the lattice.

    potentials (Potentials): The potentials.
    tags (Tensor): One path per document; the padding may hold anything.
        (n_docs, n_tokens), int64
    RETURNS (tuple[Tensor, Tensor]): The paths, END in the padding, and their moves as positions in the flattened
        matrix of moves.
        (n_tokens, n_docs), int64, and (n_tokens + 1, n_docs), int64
    """
    _, n_tokens, n_tags = potentials.emissions.shape
    path = tags.t().masked_fill(padding_mask(potentials, n_tokens), n_tags)
    path = functional.pad(path, (0, 0, 1, 1), value=n_tags)
    path[0] = n_tags + 1
    return path[1:-1], path[:-1] * (n_tags + 1) + path[1:]
