"""Decoding: the best tag path and the n best."""

import torch
from torch import Tensor

from .lattice import Lattice, build_lattice, padding_mask
from .potentials import Potentials, at_least_float32, check_log_partition, check_shapes, exact, wide_dtype

# Tokens after which scores are lowered so that the best tag has 0: float32 would lose precision over long documents.
INTERVAL = 32
# Scores from here on count as +inf.
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
    lengths, dtype = potentials.lengths, at_least_float32(potentials)
    n_docs, n_tokens, _ = potentials.emissions.shape
    if not potentials.emissions.numel():
        return lengths.new_zeros(n_docs, dtype=wide_dtype(lengths.device)), lengths.new_full((n_docs, n_tokens), -1)
    emissions = potentials.emissions.transpose(0, 1).to(dtype)
    if possible_tags is not None:
        emissions = emissions.masked_fill(~possible_tags.transpose(0, 1), float("-inf"))
    transitions = potentials.transitions.to(dtype)
    scores, lowered = _best_scores(emissions, transitions, potentials.start_transitions.to(dtype))
    best, path = _trace_back(scores, transitions, potentials.end_transitions.to(dtype), lengths)
    if lowered:
        docs = torch.arange(n_docs, device=lengths.device)
        best += torch.stack(lowered).to(best.dtype).cumsum_(0)[(lengths - 1).clamp_(min=0) // INTERVAL, docs]
    return best, path.masked_fill_(padding_mask(lengths, n_tokens), -1).t()


def _best_scores(emissions: Tensor, transitions: Tensor, start: Tensor) -> tuple[Tensor, list[Tensor]]:
    # (n_tokens, n_docs, n_tags): best score of all paths up to a token, by its tag, and by how much those of each
    # INTERVAL tokens were lowered. Nothing is masked: what lies behind the end of a document is not read.
    _, n_docs, n_tags = emissions.shape
    if n_docs < max(16, n_tags // 2):
        # tags along the contiguous dimension; candidates are (from, n_docs, to)
        scores = emissions.clone(memory_format=torch.contiguous_format)
        rows, moves = scores.transpose(1, 2).unsqueeze(3), transitions.unsqueeze(1)
        maximum = scores.new_empty(n_docs, n_tags)
        entered = maximum.t().unsqueeze(2)
    else:
        # documents along the contiguous dimension; candidates are (from, to, n_docs)
        scores = emissions.transpose(1, 2).clone(memory_format=torch.contiguous_format).transpose(1, 2)
        rows, moves = scores.transpose(1, 2).unsqueeze(2), transitions.unsqueeze(2)
        maximum = scores.new_empty(n_tags, n_docs)
        entered = maximum.unsqueeze(1)
    scores[0].add_(start)
    candidates = scores.new_empty(n_tags, *maximum.shape)
    lowered: list[Tensor] = []
    previous, *others = rows.unbind(0)
    # The maximum over the outermost dimension runs along contiguous memory; over another it is several times slower.
    for step, row in enumerate(others, start=1):
        torch.add(previous, moves, out=candidates)
        torch.amax(candidates, 0, out=maximum)
        previous = row.add_(entered)
        if step % INTERVAL == 0:
            top = previous.amax(dim=0, keepdim=True).clamp_(min=torch.finfo(scores.dtype).min)
            previous.sub_(top)
            lowered.append(top.flatten())
    if lowered:
        lowered.insert(0, torch.zeros_like(lowered[0]))
    return scores, lowered


def _trace_back(scores: Tensor, transitions: Tensor, end: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    # (n_docs,) and (n_tokens, n_docs): best scores, and the paths that have them. Numpy's calls cost a fifth of
    # torch's, and a device is waited for once instead of at every token.
    path = torch.empty(scores.shape[:2], dtype=torch.int64)
    result = path.numpy()
    # Whatever stands in the padding should not add up to a warning. The tags of a document are laid side by side.
    rows = torch.clamp(scores, max=LARGEST, out=scores.new_empty(scores.shape)).cpu().numpy()
    into = transitions.t().contiguous().cpu().numpy()  # (to, from)
    last = [max(length - 1, 0) for length in lengths.tolist()]
    final = rows[last, range(len(last))] + end.cpu().numpy()
    ending: dict[int, list[int]] = {}
    for doc, token in enumerate(last):
        ending.setdefault(token, []).append(doc)
    result[-1] = current = tags = final.argmax(1)
    for token in range(len(rows) - 2, -1, -1):
        current = (into.take(current, 0) + rows[token]).argmax(1)
        if token in ending:
            for doc in ending[token]:
                current[doc] = tags[doc]
        result[token] = current
    best = torch.from_numpy(final.max(1)).to(scores.device, wide_dtype(scores.device)).masked_fill_(lengths == 0, 0.0)
    if not float("-inf") < float(best.sum()) < LARGEST:
        check_log_partition(best.masked_fill(best >= LARGEST, float("inf")))
    return best, path.to(scores.device)


@exact
def n_best(potentials: Potentials, n: int, possible_tags: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Find the n best tag paths of each document.

    potentials (Potentials): The potentials.
    n (int): Number of paths.
    possible_tags (Tensor | None): True where a tag is possible, None if all are.
        (n_docs, n_tokens, n_tags), bool
    RETURNS (tuple[Tensor, Tensor]): Scores of the paths, in nats, best first, and the paths, all different, -1 in the
        padding. Where there are fewer paths the rest has a score of -inf and tags of -1.
        (n_docs, n), float64 where the device has it, and (n_docs, n, n_tokens), int64
    RAISES (ValueError): CRF101, CRF102, CRF103.
    """
    check_shapes(potentials, possible_tags)
    lattice = build_lattice(potentials, possible_tags)
    lattice = lattice._replace(emissions=lattice.emissions.to(lattice.moves.dtype))
    scores, pointers = _n_best_scores(lattice, n)
    check_log_partition(scores[:, 0])
    n_docs, n_tokens, n_tags = potentials.emissions.shape
    tags = torch.full((n_docs, n, n_tokens), -1, dtype=torch.int64, device=scores.device)
    # A cell is rank * (n_tags + 1) + tag.
    cell = (torch.arange(n, device=scores.device) * (n_tags + 1) + n_tags).expand(n_docs, n)
    for step in range(n_tokens - 1, -1, -1):
        cell = pointers[step].gather(1, cell).to(torch.int64)
        tags[:, :, step] = cell % (n_tags + 1)
    closed = lattice.padding[:-1].t().unsqueeze(1) | (scores == float("-inf")).unsqueeze(2)
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
