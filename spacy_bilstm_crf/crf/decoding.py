"""Decoding: the best tag path and the n best."""

import torch
from torch import Tensor

from .losses import path_score
from .potentials import (
    Lattice,
    Potentials,
    build_lattice,
    check_log_partition,
    check_shapes,
    exact,
    padding_mask,
    wide_dtype,
)

# Steps after which scores are lowered so that the best tag has 0: float32 would lose precision over long documents.
INTERVAL = 8


@exact
def viterbi(potentials: Potentials, possible_tags: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Find the best tag path of each document.

    potentials (Potentials): The potentials.
    possible_tags (Optional[Tensor]): True where a tag is possible, None if all are.
        (n_docs, n_tokens, n_tags), bool
    RETURNS (tuple[Tensor, Tensor]): Scores of the paths, in nats, and the paths, -1 in the padding.
        (n_docs,), float64 where the device has it, and (n_docs, n_tokens), int64
    RAISES (ValueError): CRF101 if a document has no path, CRF102 if scores are not finite, CRF103 on wrong shapes.
    REFERENCE: Viterbi 1967; Rabiner 1989, equations 32 to 35.
    """
    check_shapes(potentials, possible_tags)
    dtype = torch.promote_types(potentials.emissions.dtype, torch.float32)
    lattice = build_lattice(potentials, possible_tags, dtype)
    scores = _best_scores(lattice)
    check_log_partition(scores[-1, :, -1])
    path = _trace_back(scores, lattice.transitions)
    tags = path[:-1].t().masked_fill(padding_mask(potentials).t(), -1)
    return path_score(potentials, tags), tags


def _best_scores(lattice: Lattice) -> Tensor:
    # (n_tokens + 1, n_docs, n_tags + 1): best score of all paths up to a step, by the tag there
    scores = torch.empty_like(lattice.emissions)
    rows, inputs = scores.unbind(0), lattice.emissions.unbind(0)
    torch.add(inputs[0], lattice.start, out=rows[0])
    moves = lattice.transitions.unsqueeze(1)  # (from, 1, to)
    candidates = scores.new_empty(scores.shape[2], scores.shape[1], scores.shape[2])
    # The maximum over the outer dimension runs along contiguous memory.
    for step in range(1, len(rows)):
        torch.add(rows[step - 1].t().unsqueeze(2), moves, out=candidates)
        torch.amax(candidates, dim=0, out=rows[step]).add_(inputs[step])
        if step % INTERVAL == 0:
            rows[step].sub_(rows[step].amax(dim=1, keepdim=True).clamp_(min=torch.finfo(scores.dtype).min))
    return scores


def _trace_back(scores: Tensor, transitions: Tensor) -> Tensor:
    path = torch.full(scores.shape[:2], scores.shape[2] - 1, dtype=torch.int64, device=scores.device)
    rows, steps = scores.unbind(0), path.unbind(0)
    into = transitions.t().contiguous()  # (to, from)
    for step in range(len(rows) - 2, -1, -1):
        torch.argmax(into.index_select(0, steps[step + 1]).add_(rows[step]), dim=1, out=steps[step])
    return path


@exact
def n_best(potentials: Potentials, n: int, possible_tags: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Find the n best tag paths of each document.

    potentials (Potentials): The potentials.
    n (int): Number of paths.
    possible_tags (Optional[Tensor]): True where a tag is possible, None if all are.
        (n_docs, n_tokens, n_tags), bool
    RETURNS (tuple[Tensor, Tensor]): Scores of the paths, in nats, best first, and the paths, all different, -1 in the
        padding. Where there are fewer paths the rest has a score of -inf and tags of -1.
        (n_docs, n), float64 where the device has it, and (n_docs, n, n_tokens), int64
    RAISES (ValueError): CRF101, CRF102, CRF103.
    """
    check_shapes(potentials, possible_tags)
    lattice = build_lattice(potentials, possible_tags, wide_dtype(potentials.emissions.device))
    scores, pointers = _n_best_scores(lattice, n)
    check_log_partition(scores[:, 0])
    n_docs, n_tokens, n_tags = potentials.emissions.shape
    tags = torch.full((n_docs, n, n_tokens), -1, dtype=torch.int64, device=scores.device)
    # A cell is rank * (n_tags + 1) + tag.
    cell = (torch.arange(n, device=scores.device) * (n_tags + 1) + n_tags).expand(n_docs, n)
    for step in range(n_tokens - 1, -1, -1):
        cell = pointers[step].gather(1, cell).to(torch.int64)
        tags[:, :, step] = cell % (n_tags + 1)
    closed = padding_mask(potentials).t().unsqueeze(1) | (scores == float("-inf")).unsqueeze(2)
    return scores, tags.masked_fill_(closed, -1)


def _n_best_scores(lattice: Lattice, n: int) -> tuple[Tensor, Tensor]:
    # Scores of the n best paths to END, and for each step but the first where each cell came from.
    steps, n_docs, n_tags = lattice.emissions.shape
    best = lattice.emissions.new_full((n_docs, n, n_tags), float("-inf"))
    best[:, 0] = lattice.emissions[0] + lattice.start
    offset = best.new_zeros(n_docs)
    pointers = torch.empty((steps - 1, n_docs, n * n_tags), dtype=torch.int32, device=best.device)
    for step in range(1, steps):
        moves = (best.unsqueeze(3) + lattice.transitions).flatten(1, 2)  # (n_docs, rank and from, to)
        best, came_from = moves.topk(n, dim=1)
        best += lattice.emissions[step].unsqueeze(1)
        pointers[step - 1] = came_from.flatten(1)
        top = best.amax(dim=(1, 2)).clamp_(min=torch.finfo(best.dtype).min)
        offset += top
        best -= top.view(-1, 1, 1)
    return best[:, :, -1] + offset.unsqueeze(1), pointers
