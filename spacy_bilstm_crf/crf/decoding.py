"""Decoding: the best tag path and the n best."""

import torch
from torch import Tensor

from .lattice import Lattice, build_lattice, padding_mask
from .losses import path_score
from .potentials import Potentials, check_log_partition, check_shapes, exact, wide_dtype

# Tokens after which scores are lowered so that the best tag has 0: float32 would lose precision over long documents.
INTERVAL = 32
LARGEST = 1e38


@exact
def viterbi(potentials: Potentials, possible_tags: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Find the best tag path of each document.

    potentials (Potentials): The potentials.
    possible_tags (Tensor | None): True where a tag is possible, None if all are.
        (n_docs, n_tokens, n_tags), bool
    RETURNS (tuple[Tensor, Tensor]): Scores of the paths, in nats, and the paths, -1 in the padding.
        (n_docs,), float64 where the device has it, and (n_docs, n_tokens), int64
    RAISES (ValueError): CRF101 if a document has no path, CRF102 if scores are not finite, CRF103 on wrong shapes.
    REFERENCE: Viterbi 1967; Rabiner 1989, equations 32 to 35.
    """
    check_shapes(potentials, possible_tags)
    emissions, lengths = potentials.emissions, potentials.lengths
    if not emissions.numel():
        return path_score(potentials, lengths.new_zeros(emissions.shape[:2])), lengths.new_full(emissions.shape[:2], -1)
    dtype = torch.promote_types(emissions.dtype, torch.float32)
    if possible_tags is not None:
        emissions = emissions.masked_fill(~possible_tags, float("-inf"))
    transitions = potentials.transitions.to(dtype)
    start = potentials.start_transitions.to(dtype)
    scores, taken = _best_scores(emissions.transpose(0, 1).to(dtype), transitions, start)
    last = (lengths - 1).clamp_(min=0)
    docs = torch.arange(len(lengths), device=lengths.device)
    best, tags = (scores[last, docs] + potentials.end_transitions).max(dim=1)
    best = (best.to(wide_dtype(best.device)) + taken[last // INTERVAL, docs]).masked_fill_(lengths == 0, 0.0)
    check_log_partition(best)
    padding = padding_mask(potentials, emissions.shape[1])
    path = _trace_back(scores, transitions, tags, last)
    return best, path.masked_fill_(padding, -1).t()


def _best_scores(emissions: Tensor, transitions: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    # (n_tokens, n_docs, n_tags): best score of all paths up to a token, by its tag, lowered every INTERVAL tokens by
    # (n_tokens / INTERVAL, n_docs). Nothing is masked: behind the end of a document lies what nobody reads.
    n_tokens, n_docs, n_tags = emissions.shape
    # Documents run along the contiguous dimension unless they are few, then tags do.
    if 2 * n_docs < n_tags:
        scores = torch.empty_like(emissions, memory_format=torch.contiguous_format)
        rows, before, moves = scores.unbind(0), scores.transpose(1, 2).unsqueeze(3), transitions.unsqueeze(1)
        inputs, result, axis = emissions.unbind(0), scores, 1
    else:
        scores = emissions.new_empty(n_tokens, n_tags, n_docs)
        rows, before, moves = scores.unbind(0), scores.unsqueeze(2), transitions.unsqueeze(2)
        inputs, result, axis = emissions.transpose(1, 2).unbind(0), scores.transpose(1, 2), 0
    candidates = scores.new_empty(n_tags, *rows[0].shape)
    taken = scores.new_zeros((n_tokens - 1) // INTERVAL + 1, n_docs)
    torch.add(inputs[0], start if axis == 1 else start.unsqueeze(1), out=rows[0])
    # The maximum over the outer dimension runs along contiguous memory.
    for step, previous in enumerate(before.unbind(0)[:-1], start=1):
        torch.add(previous, moves, out=candidates)
        torch.amax(candidates, 0, out=rows[step]).add_(inputs[step])
        if step % INTERVAL == 0:
            top = rows[step].amax(dim=axis, keepdim=True).clamp_(min=torch.finfo(scores.dtype).min)
            rows[step].sub_(top)
            taken[step // INTERVAL] = top.squeeze(axis)
    return result, taken.to(wide_dtype(taken.device)).cumsum_(0)


def _trace_back(scores: Tensor, transitions: Tensor, tags: Tensor, last: Tensor) -> Tensor:
    # (n_tokens, n_docs): the path that ends in `tags` at token `last`. Numpy's calls cost a fifth of torch's, and a
    # device gets to wait once instead of at every token.
    path = torch.empty(scores.shape[:2], dtype=torch.int64)
    # Whatever stands in the padding should not add up to a warning.
    rows = scores.clamp_(max=LARGEST).cpu().numpy()
    into = transitions.t().contiguous().cpu().numpy()  # (to, from)
    final = tags.tolist()
    ending: dict[int, list[int]] = {}
    for doc, token in enumerate(last.tolist()):
        ending.setdefault(token, []).append(doc)
    result = path.numpy()
    current = tags.cpu().numpy()
    result[-1] = current
    for token in range(len(rows) - 2, -1, -1):
        current = (into.take(current, 0) + rows[token]).argmax(1)
        for doc in ending.get(token, ()):
            current[doc] = final[doc]
        result[token] = current
    return path.to(scores.device)


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
    closed = padding_mask(potentials, n_tokens).t().unsqueeze(1) | (scores == float("-inf")).unsqueeze(2)
    return scores, tags.masked_fill_(closed, -1)


def _n_best_scores(lattice: Lattice, n: int) -> tuple[Tensor, Tensor]:
    # Scores of the n best paths to END, and for each step but the first where each cell came from.
    steps, n_docs, n_tags = lattice.emissions.shape
    best = lattice.emissions.new_full((n_docs, n, n_tags), float("-inf"))
    best[:, 0] = lattice.emissions[0] + lattice.moves[-1]
    offset = best.new_zeros(n_docs)
    pointers = torch.empty((steps - 1, n_docs, n * n_tags), dtype=torch.int32, device=best.device)
    for step in range(1, steps):
        moves = (best.unsqueeze(3) + lattice.moves[:-1]).flatten(1, 2)  # (n_docs, rank and from, to)
        best, came_from = moves.topk(n, dim=1)
        best += lattice.emissions[step].unsqueeze(1)
        pointers[step - 1] = came_from.flatten(1)
        top = best.amax(dim=(1, 2)).clamp_(min=torch.finfo(best.dtype).min)
        offset += top
        best -= top.view(-1, 1, 1)
    return best[:, :, -1] + offset.unsqueeze(1), pointers
