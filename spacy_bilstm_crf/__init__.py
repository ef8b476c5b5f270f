"""BiLSTM-CRF named entity recognition for spaCy.

Nothing has to be imported to use it: spaCy finds the factories and architectures of an installed package by itself.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .annotate import annotate_batch

__all__ = ["annotate_batch"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # What is imported here, every user of spaCy who has the package installed would pay for.
    if name == "annotate_batch":
        from .annotate import annotate_batch

        return annotate_batch
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
