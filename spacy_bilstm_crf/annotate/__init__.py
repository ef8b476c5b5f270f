"""Annotating a corpus of any size: slices of the input become shards of the output, each whole or not there.

A slice is a run of lines or rows of one input file. What a slice becomes depends on nothing but the slice, the model
and the options, so it may be done by any worker of any engine, and done again after a crash, with the same result.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .arrow import annotate_batch, output_schema
    from .job import Job
    from .run import Summary, annotate

__all__ = ["Job", "Summary", "annotate", "annotate_batch", "output_schema"]

_MODULES = {"Job": "job", "Summary": "run", "annotate": "run", "annotate_batch": "arrow", "output_schema": "arrow"}


def __getattr__(name: str) -> Any:
    # The command line imports this package on each start, and Arrow is an extra.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
