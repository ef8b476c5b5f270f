"""The network: a bidirectional LSTM over word vectors, and the scores of a linear-chain CRF.

It stops at scores. Losses, decoding and probabilities are functions of these scores and live elsewhere.
"""

from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .batching import cells_of_rows, make_buckets
from .errors import Errors

_COLUMN_BLOCK = 16
# By how much, in nats, a tag that was never trained scores below the mean of the others.
_NEW_TAG_MARGIN = 5.0


class _TagScores(nn.Linear):
    """A linear layer whose columns do not depend on one another in the last bit."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (torch's name)
        """Score the tags."""
        # Products of full blocks of columns round each column alike, whatever stands beside it: a label that is added
        # later changes no score by a bit.
        padding = -self.out_features % _COLUMN_BLOCK
        weight, bias = F.pad(self.weight, (0, 0, 0, padding)), F.pad(self.bias, (0, padding))
        return F.linear(input, weight, bias)[:, : self.out_features].contiguous()


class BiLSTMCRF(nn.Module):
    """BiLSTM, projection to tag scores, and the transition scores of a CRF.

    nI (int): Width of the word vectors.
    nO (int): Number of tags.
    hidden_width (int): Width of the LSTM's state in each direction.
    depth (int): Number of BiLSTM layers. 0 leaves the projection alone, for encoders that know the context already.
    crf (bool): Learn transition scores. Without them every token is tagged for itself, by a softmax.
    mixed_precision (bool): Compute in bfloat16 what autocast holds safe. Weights and scores stay float32.
    REFERENCE: Huang et al. 2015; Lample et al. 2016; Ma & Hovy 2016
    """

    def __init__(
        self,
        nI: int,
        nO: int,
        *,
        hidden_width: int = 100,
        depth: int = 1,
        crf: bool = True,
        mixed_precision: bool = False,
    ) -> None:
        super().__init__()
        self.nI = nI
        self.nO = nO
        self.hidden_width = hidden_width
        self.mixed_precision = mixed_precision
        widths = [nI] + [2 * hidden_width] * depth
        self.forward_layers = nn.ModuleList(nn.LSTM(width, hidden_width) for width in widths[:depth])
        self.backward_layers = nn.ModuleList(nn.LSTM(width, hidden_width) for width in widths[:depth])
        self.output = _TagScores(widths[-1], nO)
        self.transitions = nn.Parameter(torch.zeros(nO, nO), requires_grad=crf)
        self.start_transitions = nn.Parameter(torch.zeros(nO), requires_grad=crf)
        self.end_transitions = nn.Parameter(torch.zeros(nO), requires_grad=crf)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for lstm in (*self.forward_layers, *self.backward_layers):
            reset_lstm(lstm)
        nn.init.xavier_uniform_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def forward(
        self, X: Tensor, lengths: Tensor, *, dropout: float = 0.0, is_train: bool = False
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Score every tag at every token, and every move between tags.

        X (Tensor): Word vectors, the documents of the batch one after another.
            (n_tokens, nI) float32
        lengths (Tensor): Number of tokens of each document.
            (n_docs,) int64, on the CPU
        dropout (float): Dropout rate on the input, between layers and on the output of the BiLSTM.
        is_train (bool): Apply dropout. An argument, so that threads that predict share no state.
        RETURNS (tuple): Emissions (n_tokens, nO), transitions (nO, nO), start and end transitions (nO,), all float32.
        """
        dropout = dropout if is_train else 0.0
        if not 0.0 <= dropout < 1.0:
            raise ValueError(Errors.CRF110.format(dropout=dropout))
        with torch.autocast(X.device.type, torch.bfloat16) if self.mixed_precision else nullcontext():
            hidden = F.dropout(X, dropout, is_train)
            if not len(X):
                hidden = X.new_zeros(0, self.output.in_features)
            elif len(self.forward_layers):
                hidden = self._encode(hidden, lengths, dropout, is_train)
            emissions = self.output(hidden)
        return emissions.float(), self.transitions, self.start_transitions, self.end_transitions

    def _encode(self, X: Tensor, lengths: Tensor, dropout: float, is_train: bool) -> Tensor:
        buckets = make_buckets(lengths)
        forward_cells = cells_of_rows(buckets, len(X)).to(X.device)
        backward_cells = cells_of_rows(buckets, len(X), backwards=True).to(X.device)
        for forward_lstm, backward_lstm in zip(self.forward_layers, self.backward_layers, strict=True):
            left = [run_lstm(forward_lstm, X, bucket.rows) for bucket in buckets]
            right = [run_lstm(backward_lstm, X, bucket.reversed_rows) for bucket in buckets]
            left_context = torch.cat(left).index_select(0, forward_cells)
            right_context = torch.cat(right).index_select(0, backward_cells)
            X = torch.cat((left_context, right_context), dim=1)  # (n_tokens, 2 * hidden_width)
            X = F.dropout(X, dropout, is_train)
        return X

    def resize_output(self, nO: int, like: Sequence[Sequence[int]] = ()) -> None:
        """Make room for further tags. What was learnt for the tags that exist does not change.

        A new tag starts out as the mean of others, less a margin. A path with a new label then scores as the paths with
        a known one do on average, so that it never is the best one before it has been trained.

        nO (int): The new number of tags, at least the present one.
        like (Sequence[Sequence[int]]): For each new tag, those it is modelled on: one for each known label, in the same
            order for all. Empty if no label is known.
        """
        with torch.no_grad():
            rows = torch.tensor(like, dtype=torch.int64, device=self.output.weight.device).view(nO - self.nO, -1)
            self.output.weight = _grow_rows(self.output.weight, rows, 0.0)
            self.output.bias = _grow_rows(self.output.bias, rows, _NEW_TAG_MARGIN)
            self.transitions = _grow_moves(self.transitions, rows)
            self.start_transitions = _grow_rows(self.start_transitions, rows, 0.0)
            self.end_transitions = _grow_rows(self.end_transitions, rows, 0.0)
        self.output.out_features = nO
        self.nO = nO


def reset_lstm(lstm: nn.LSTM) -> None:
    """Give an LSTM of one layer fresh weights.

    lstm (LSTM): The LSTM.
    """
    weights = dict(lstm.named_parameters())
    nn.init.xavier_uniform_(weights["weight_ih_l0"])
    nn.init.orthogonal_(weights["weight_hh_l0"])
    nn.init.zeros_(weights["bias_ih_l0"])
    nn.init.zeros_(weights["bias_hh_l0"])
    # The forget gate starts open (Jozefowicz et al. 2015). Gates lie in the order input, forget, cell, output.
    nn.init.ones_(weights["bias_ih_l0"].data[lstm.hidden_size : 2 * lstm.hidden_size])


def run_lstm(lstm: nn.Module, X: Tensor, rows: Tensor) -> Tensor:
    """Run an LSTM over a bucket.

    lstm (Module): The LSTM.
    X (Tensor): The ragged batch.
        (n_rows, nI) float32
    rows (Tensor): Which row stands at each time step of each sequence.
        (n_steps, n_sequences) int64
    RETURNS (Tensor): The state after each step.
        (n_steps * n_sequences, hidden_width) float32
    """
    steps = X.index_select(0, rows.flatten().to(X.device)).view(*rows.shape, X.shape[1])
    hidden, _ = lstm(steps)  # (n_steps, n_sequences, hidden_width)
    return hidden.flatten(0, 1)


def _grow_rows(parameter: Tensor, rows: Tensor, margin: float) -> nn.Parameter:
    if rows.shape[1]:
        new = parameter[rows].mean(dim=1) - margin
    else:
        new = parameter.new_zeros(len(rows), *parameter.shape[1:])
    return nn.Parameter(torch.cat([parameter, new]), requires_grad=parameter.requires_grad)


def _grow_moves(parameter: Tensor, rows: Tensor) -> nn.Parameter:
    n_old, n_new = len(parameter), len(rows)
    grown = parameter.new_zeros(n_old + n_new, n_old + n_new)
    grown[:n_old, :n_old] = parameter
    if rows.shape[1]:
        grown[:n_old, n_old:] = parameter[:, rows].mean(dim=2)
        grown[n_old:, :n_old] = parameter[rows].mean(dim=1)
        # Moves within the new label are as those within each known one.
        grown[n_old:, n_old:] = parameter[rows.unsqueeze(1), rows.unsqueeze(0)].mean(dim=2)
    return nn.Parameter(grown, requires_grad=parameter.requires_grad)
