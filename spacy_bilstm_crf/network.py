"""The network: a bidirectional LSTM over word vectors, and the scores of a linear-chain CRF.

It stops at scores. Losses, decoding and probabilities are functions of these scores and live elsewhere.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .batching import Bucket, cells_of_rows, make_buckets
from .errors import Errors


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
        self.output = nn.Linear(widths[-1], nO)
        self.transitions = nn.Parameter(torch.zeros(nO, nO), requires_grad=crf)
        self.start_transitions = nn.Parameter(torch.zeros(nO), requires_grad=crf)
        self.end_transitions = nn.Parameter(torch.zeros(nO), requires_grad=crf)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for lstm in (*self.forward_layers, *self.backward_layers):
            nn.init.xavier_uniform_(lstm.weight_ih_l0)
            nn.init.orthogonal_(lstm.weight_hh_l0)
            nn.init.zeros_(lstm.bias_ih_l0)
            nn.init.zeros_(lstm.bias_hh_l0)
            # The forget gate starts open (Jozefowicz et al. 2015). Gates lie in the order input, forget, cell, output.
            nn.init.ones_(lstm.bias_ih_l0.data[self.hidden_width : 2 * self.hidden_width])
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
        if not 0.0 <= dropout < 1.0:
            raise ValueError(Errors.CRF110.format(dropout=dropout))
        with torch.autocast(X.device.type, torch.bfloat16, enabled=self.mixed_precision):
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
            left = [_run_lstm(forward_lstm, X, bucket.rows) for bucket in buckets]
            right = [_run_lstm(backward_lstm, X, bucket.reversed_rows) for bucket in buckets]
            left_context = torch.cat(left).index_select(0, forward_cells)
            right_context = torch.cat(right).index_select(0, backward_cells)
            X = torch.cat((left_context, right_context), dim=1)  # (n_tokens, 2 * hidden_width)
            X = F.dropout(X, dropout, is_train)
        return X

    def resize_output(self, nO: int) -> None:
        """Make room for further tags. What was learnt for the tags that exist does not change.

        nO (int): The new number of tags, at least the present one.
        """
        # New tags score nothing by themselves and take the mean bias and the mean moves of what is there, so that
        # they neither win nor lose everywhere before they are trained.
        self.output.weight = _grow(self.output.weight, (nO, self.output.in_features), 0.0)
        self.output.bias = _grow(self.output.bias, (nO,), float(self.output.bias.detach().min()))
        self.transitions = _grow(self.transitions, (nO, nO), float(self.transitions.detach().mean()))
        self.start_transitions = _grow(self.start_transitions, (nO,), float(self.start_transitions.detach().mean()))
        self.end_transitions = _grow(self.end_transitions, (nO,), float(self.end_transitions.detach().mean()))
        self.output.out_features = nO
        self.nO = nO


def _run_lstm(lstm: nn.Module, X: Tensor, rows: Tensor) -> Tensor:
    steps = X.index_select(0, rows.flatten().to(X.device)).view(*rows.shape, X.shape[1])
    hidden, _ = lstm(steps)  # (n_steps, n_docs, hidden_width)
    return hidden.flatten(0, 1)


def _grow(parameter: nn.Parameter, shape: tuple[int, ...], fill: float) -> nn.Parameter:
    grown = parameter.detach().new_full(shape, fill)
    grown[tuple(slice(size) for size in parameter.shape)] = parameter.detach()
    return nn.Parameter(grown, requires_grad=parameter.requires_grad)
