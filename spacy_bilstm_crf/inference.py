"""From potentials to losses, tag paths and probabilities, for batches as Thinc holds them.

The functions of `crf` work on padded torch tensors. Here ragged batches are cut into buckets of similar length, moved
through those functions, and put together again.
"""

from collections.abc import Iterator, Sequence

import numpy
import torch
from thinc.types import ArrayXd
from thinc.util import xp2torch
from torch import Tensor

from . import crf
from .batching import Bucket, cells_of_rows, make_buckets
from .threads import use_one_thread_after_fork
from .types import AllowedTransitions, Annotation, BoolArray, CRFPotentials, IntArray

# A CRF step is cheap beside its fixed cost, so wider buckets pay more than in the network.
_MAX_PADDING = 0.35


def to_tensor(array: ArrayXd) -> Tensor:
    """View an array of Thinc as a tensor, on the device where it lies.

    array (ArrayXd): A numpy or cupy array.
    RETURNS (Tensor): A tensor that shares its memory.
    """
    return torch.from_numpy(array) if isinstance(array, numpy.ndarray) else xp2torch(array)


def decode(
    potentials: CRFPotentials, allowed: AllowedTransitions | None = None, possible_tags: BoolArray | None = None
) -> IntArray:
    """Find the best tag path of each document.

    potentials (CRFPotentials): The scores of the batch.
    allowed (AllowedTransitions | None): Which moves are legal; None for all.
    possible_tags (BoolArray | None): Which tags a token may have; None for all.
        (n_tokens, n_tags) bool
    RETURNS (IntArray): The tag of each token.
        (n_tokens,) int64
    """
    paths = numpy.empty(len(potentials.emissions), dtype="int64")
    for bucket, padded in padded_buckets(potentials, allowed):
        _, tags = crf.viterbi(padded, pad_tags(possible_tags, bucket, padded))
        is_token = torch.arange(tags.shape[1]) < bucket.lengths.unsqueeze(1)  # (n_docs, n_steps)
        paths[bucket.rows.T[is_token].numpy()] = tags.cpu()[is_token].numpy()
    return paths


def marginals(
    potentials: CRFPotentials, allowed: AllowedTransitions | None = None, possible_tags: BoolArray | None = None
) -> numpy.ndarray:
    """Find the probability of each tag at each token.

    potentials (CRFPotentials): The scores of the batch.
    allowed (AllowedTransitions | None): Which moves are legal; None for all.
    possible_tags (BoolArray | None): Which tags a token may have; None for all.
        (n_tokens, n_tags) bool
    RETURNS (ndarray): Probabilities that sum to 1 for each token.
        (n_tokens, n_tags) float32
    """
    probabilities = numpy.zeros(potentials.emissions.shape, dtype="float32")
    for bucket, padded in padded_buckets(potentials, allowed):
        probs = crf.marginals(padded, pad_tags(possible_tags, bucket, padded))
        is_token = torch.arange(probs.shape[1]) < bucket.lengths.unsqueeze(1)  # (n_docs, n_steps)
        probabilities[bucket.rows.T[is_token].numpy()] = probs.cpu()[is_token].numpy()
    return probabilities


def loss_and_gradient(
    potentials: CRFPotentials,
    annotation: Annotation,
    allowed: AllowedTransitions | None = None,
    possible_tags: BoolArray | None = None,
) -> tuple[numpy.ndarray, CRFPotentials]:
    """Find the negative log likelihood of the annotation, and its gradient.

    potentials (CRFPotentials): The scores of the batch.
    annotation (Annotation): The gold tags, or what is known of them. It lies within what is possible.
    allowed (AllowedTransitions | None): Which moves are legal; None for all.
    possible_tags (BoolArray | None): Which tags a token may have; None for all.
        (n_tokens, n_tags) bool
    RETURNS (tuple): The loss of each document in nats, (n_docs,) float64, and the gradient of their sum with respect
        to the potentials, expected minus observed counts.
    REFERENCE: Lafferty et al. 2001; Lample et al. 2016, equation 3
    """
    emissions = to_tensor(potentials.emissions)
    losses = numpy.zeros(len(potentials.lengths))
    d_rows = []
    d_moves = [torch.zeros_like(to_tensor(scores)) for scores in potentials.arrays[1:]]
    buckets = []
    for bucket, padded in padded_buckets(potentials, allowed, _split(_complete_docs(potentials, annotation))):
        loss, gradient = _bucket_loss(padded, bucket, annotation, possible_tags)
        losses[bucket.docs.numpy()] = loss.cpu().numpy()
        d_rows.append(gradient.emissions.transpose(0, 1).flatten(0, 1))
        for total, part in zip(d_moves, gradient[1:], strict=True):
            total += part
        buckets.append(bucket)
    if not buckets:
        d_emissions = torch.zeros_like(emissions)
    else:
        cells = cells_of_rows(buckets, len(emissions)).to(emissions.device)
        d_emissions = torch.cat(d_rows).index_select(0, cells)
    return losses, CRFPotentials.from_tensors(d_emissions, potentials.lengths, *d_moves)


def _complete_docs(potentials: CRFPotentials, annotation: Annotation) -> BoolArray:
    """Tell which documents have exactly one allowed tag at every token."""
    docs = numpy.repeat(numpy.arange(len(potentials.lengths)), potentials.lengths)
    return numpy.bincount(docs[annotation.tags < 0], minlength=len(potentials.lengths)) == 0


def _bucket_loss(
    padded: crf.Potentials, bucket: Bucket, annotation: Annotation, possible_tags: BoolArray | None
) -> tuple[Tensor, crf.Gradient]:
    possible = pad_tags(possible_tags, bucket, padded)
    device = padded.emissions.device
    tags = torch.from_numpy(annotation.tags)[bucket.rows.T].to(device)  # (n_docs, n_steps)
    # Padding repeats a document's last tag, so a negative one is a token's.
    if not bool((tags < 0).any()):
        return crf.nll_and_gradient(padded, tags, possible)
    n_tags = padded.emissions.shape[2]
    open_tags = pad_tags(annotation.allowed_tags, bucket, padded)
    if open_tags is None:
        open_tags = torch.ones_like(padded.emissions, dtype=torch.bool) if possible is None else possible
    one_hot = torch.nn.functional.one_hot(tags.clamp(min=0), n_tags).bool()
    allowed_tags = torch.where(tags.unsqueeze(2) < 0, open_tags, one_hot)
    return crf.marginal_nll_and_gradient(padded, allowed_tags, possible)


def padded_buckets(
    potentials: CRFPotentials, allowed: AllowedTransitions | None, groups: Sequence[BoolArray] | None = None
) -> Iterator[tuple[Bucket, crf.Potentials]]:
    """Cut a batch into padded buckets of documents of similar length.

    potentials (CRFPotentials): The scores of the batch.
    allowed (AllowedTransitions | None): Which moves are legal; None for all.
    groups (Sequence[BoolArray] | None): Documents that share no bucket, each as a mask; those in none of them are left
        out. None for one group of all.
        (n_docs,) bool
    YIELDS (tuple): A bucket and its potentials, batch first. Documents without tokens are in none.
    """
    use_one_thread_after_fork()
    emissions = to_tensor(potentials.emissions)
    moves = _constrained_moves(potentials, allowed)
    lengths = torch.from_numpy(potentials.lengths)
    masks = [lengths >= 0] if groups is None else [torch.from_numpy(group) for group in groups]
    offsets = torch.cumsum(lengths, 0) - lengths
    for mask in masks:
        for bucket in make_buckets(torch.where(mask, lengths, 0), max_padding=_MAX_PADDING, offsets=offsets):
            rows = bucket.rows.to(emissions.device)
            steps = emissions.index_select(0, rows.flatten()).view(*rows.shape, -1)  # (n_steps, n_docs, n_tags)
            yield bucket, crf.Potentials(steps.transpose(0, 1), bucket.lengths.to(emissions.device), *moves)


def _constrained_moves(potentials: CRFPotentials, allowed: AllowedTransitions | None) -> list[Tensor]:
    moves = (potentials.transitions, potentials.start_transitions, potentials.end_transitions)
    tensors = [to_tensor(scores) for scores in moves]
    if allowed is None:
        return tensors
    pairs = zip(tensors, allowed, strict=True)
    return [crf.constrain(scores, torch.from_numpy(mask).to(scores.device)) for scores, mask in pairs]


def _split(is_member: BoolArray) -> list[BoolArray] | None:
    return None if is_member.all() else [is_member, ~is_member]


def pad_tags(tags: BoolArray | None, bucket: Bucket, padded: crf.Potentials) -> Tensor | None:
    """Pad a mask of tags for a bucket.

    tags (BoolArray | None): The mask of the batch.
        (n_tokens, n_tags) bool
    bucket (Bucket): The bucket.
    padded (Potentials): The bucket's potentials.
    RETURNS (Tensor | None): The mask on the device of the potentials; None for None.
        (n_docs, n_steps, n_tags) bool
    """
    if tags is None:
        return None
    return torch.from_numpy(tags)[bucket.rows.T].to(padded.emissions.device)  # (n_docs, n_steps, n_tags)
