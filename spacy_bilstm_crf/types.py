"""What crosses between torch, Thinc and the pipes."""

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, cast

import numpy
from numpy.typing import NDArray
from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats1d, Floats2d
from thinc.util import torch2xp
from torch import Tensor

# Keys of `Doc.user_data` of a reference: a tag or None for each token, the scheme of these tags, and the labels that
# the document was annotated for.
TAGS_KEY = "crf_tags"
TAG_SCHEME_KEY = "crf_tag_scheme"
LABELS_KEY = "crf_labels"
BORDERS_KEY = "crf_borders"

BoolArray: TypeAlias = NDArray[numpy.bool_]
IntArray: TypeAlias = NDArray[numpy.int64]
FloatArray: TypeAlias = NDArray[numpy.float64]


@dataclass
class CRFPotentials:
    """The scores of a batch, or the gradient of a loss with respect to them.

    emissions (Floats2d): Score of each tag at each token, the documents of the batch one after another.
        (n_tokens, n_tags) float32
    lengths (IntArray): Number of tokens of each document.
        (n_docs,) int64, on the CPU
    transitions (Floats2d): Score of the move from one tag (row) to another (column).
        (n_tags, n_tags) float32
    start_transitions (Floats1d): Score of each tag at the first token.
        (n_tags,) float32
    end_transitions (Floats1d): Score of each tag at the last token.
        (n_tags,) float32
    """

    emissions: Floats2d
    lengths: IntArray
    transitions: Floats2d
    start_transitions: Floats1d
    end_transitions: Floats1d

    @classmethod
    def from_tensors(cls, emissions: Tensor, lengths: IntArray, *moves: Tensor) -> "CRFPotentials":
        """Make them from tensors, whose memory they share on a CPU.

        emissions (Tensor): Scores of tags.
            (n_tokens, n_tags) float32
        lengths (IntArray): Number of tokens of each document.
            (n_docs,) int64
        *moves (Tensor): Transitions, start and end transitions.
        RETURNS (CRFPotentials): The potentials.
        """
        scores, *arrays = (cast(Any, torch2xp(tensor)) for tensor in (emissions, *moves))
        return cls(scores, lengths, *arrays)

    @property
    def arrays(self) -> tuple[Any, Any, Any, Any]:
        """RETURNS (tuple): Emissions, transitions, start and end transitions."""
        return self.emissions, self.transitions, self.start_transitions, self.end_transitions

    def first_tags(self, n_tags: int) -> "CRFPotentials":
        """Leave out the later tags.

        n_tags (int): How many to keep.
        RETURNS (CRFPotentials): The scores of the first tags, as views.
        """
        emissions, transitions, starts, ends = self.arrays
        return CRFPotentials(
            emissions[:, :n_tags], self.lengths, transitions[:n_tags, :n_tags], starts[:n_tags], ends[:n_tags]
        )


class AllowedTransitions(NamedTuple):
    """Which moves a tag scheme allows.

    transitions (BoolArray): From tag (row) to tag (column).
        (n_tags, n_tags) bool
    starts (BoolArray): At the first token.
        (n_tags,) bool
    ends (BoolArray): At the last token.
        (n_tags,) bool
    """

    transitions: BoolArray
    starts: BoolArray
    ends: BoolArray


@dataclass
class Annotation:
    """What the annotation of a batch says of its tags.

    tags (IntArray): The gold tag of each token, -1 where it is not known.
        (n_tokens,) int64
    allowed_tags (BoolArray | None): Which tags the annotation leaves open, where that is more than one and fewer than
        all. None: one for a known tag, every possible one for -1.
        (n_tokens, n_tags) bool
    """

    tags: IntArray
    allowed_tags: BoolArray | None = None


CRFModel: TypeAlias = Model[list[Doc], CRFPotentials]
EmbedModel: TypeAlias = Model[list[Doc], list[Floats2d]]
