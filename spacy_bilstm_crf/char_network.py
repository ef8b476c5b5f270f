"""The network that reads the characters of words."""

import torch
from torch import Tensor, nn

from .batching import make_buckets
from .network import reset_lstm, run_lstm

# Words are short and many: a few large buckets run faster than many without padding, and in fewer shapes.
_MAX_PADDING = 0.3
_STEP_BITS = 2


class LastStateBiLSTM(nn.Module):
    """Bidirectional LSTM over short sequences that keeps the last state of each direction.

    nI (int): Width of the vectors of the sequences.
    nO (int): Width of the result, twice that of the LSTM's state.
    REFERENCE: Lample et al. 2016
    """

    def __init__(self, nI: int, nO: int) -> None:
        super().__init__()
        self.nI = nI
        self.nO = nO
        self.forward_lstm = nn.LSTM(nI, nO // 2)
        self.backward_lstm = nn.LSTM(nI, nO // 2)
        for lstm in (self.forward_lstm, self.backward_lstm):
            reset_lstm(lstm)

    def forward(self, X: Tensor, lengths: Tensor) -> Tensor:
        """Read each sequence from both sides.

        X (Tensor): The sequences one after another.
            (n_rows, nI) float32
        lengths (Tensor): Number of rows of each sequence, at least 1.
            (n_sequences,) int64, on the CPU
        RETURNS (Tensor): The state at the last row of each sequence, then the state at the first row when it is read
            backwards.
            (n_sequences, nO) float32
        """
        if not len(lengths):
            return X.new_zeros(0, self.nO)
        buckets = make_buckets(lengths, max_padding=_MAX_PADDING, step_bits=_STEP_BITS)
        states = []
        for bucket in buckets:
            # The cell of each sequence's last step; what follows it is padding.
            last = ((bucket.lengths - 1) * len(bucket.docs) + torch.arange(len(bucket.docs))).to(X.device)
            left = run_lstm(self.forward_lstm, X, bucket.rows).index_select(0, last)
            right = run_lstm(self.backward_lstm, X, bucket.reversed_rows).index_select(0, last)
            states.append(torch.cat((left, right), dim=1))  # (n_sequences, nO)
        order = torch.cat([bucket.docs for bucket in buckets])
        return torch.cat(states).index_select(0, torch.argsort(order).to(X.device))
