"""How sure a CRF is of a whole document."""

import torch
from torch import Tensor

from .lattice import build_lattice
from .log_space import log_total
from .losses import log_partition
from .marginals import forward_backward
from .potentials import Potentials, check_shapes, exact


@exact
def entropy(potentials: Potentials, possible_tags: Tensor | None = None) -> Tensor:
    """Compute the entropy of the distribution over tag paths.

    potentials (Potentials): The potentials.
    possible_tags (Tensor | None): True where a tag is possible, None if all are.
        (n_docs, n_tokens, n_tags), bool
    RETURNS (Tensor): Entropies, in nats, at least 0.
        (n_docs,), float64 where the device has it
    RAISES (ValueError): CRF101, CRF102, CRF103.
    REFERENCE: Mann & McCallum 2007; Settles & Craven 2008
    """
    check_shapes(potentials, possible_tags)
    alpha, beta, log_z = forward_backward(potentials, possible_tags)
    total = torch.zeros_like(log_z)
    if not potentials.emissions.shape[1]:
        return total
    by_token = torch.special.entr((alpha + beta - log_z.view(-1, 1, 1)).exp_()).sum(dim=2)  # (n_docs, n_tokens)
    total += by_token[:, 0]
    # A path is a Markov chain: each further token adds what it leaves open once the tag before it is known.
    for step in range(1, by_token.shape[1]):
        entered = beta[:, step] + potentials.emissions[:, step].masked_fill(torch.isneginf(beta[:, step]), 0.0)
        if possible_tags is not None:
            entered.masked_fill_(~possible_tags[:, step], float("-inf"))
        pairs = alpha[:, step - 1].unsqueeze(2) + potentials.transitions + entered.unsqueeze(1)
        added = torch.special.entr(pairs.sub_(log_z.view(-1, 1, 1)).exp_()).sum(dim=(1, 2)) - by_token[:, step - 1]
        total += added.masked_fill_(step >= potentials.lengths, 0.0)
    return total.clamp_(min=0.0)


@exact
def allowed_log_prob(potentials: Potentials, allowed_tags: Tensor, possible_tags: Tensor | None = None) -> Tensor:
    """Compute the log probability that the tag path lies within what is allowed.

    potentials (Potentials): The potentials.
    allowed_tags (Tensor): True where a tag is allowed.
        (n_docs, n_tokens, n_tags), bool
    possible_tags (Tensor | None): True where a tag is possible, None if all are.
        (n_docs, n_tokens, n_tags), bool
    RETURNS (Tensor): Log probabilities, in nats, at most 0; -inf where no possible path is allowed.
        (n_docs,), float64 where the device has it
    RAISES (ValueError): CRF101 if a document has no possible path, CRF102, CRF103.
    """
    check_shapes(potentials, allowed_tags, possible_tags)
    if possible_tags is not None:
        allowed_tags = allowed_tags & possible_tags
    return (
        log_total(build_lattice(potentials, allowed_tags))
        .sub_(log_partition(potentials, possible_tags))
        .clamp_(max=0.0)
    )
