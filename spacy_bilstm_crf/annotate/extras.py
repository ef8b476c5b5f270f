"""Libraries that are not installed with the package."""

from importlib import import_module
from typing import Any

from ..errors import Errors


def require(module: str, extra: str, what: str) -> Any:
    """Import a library that an extra of the package brings.

    module (str): The dotted name of the module.
    extra (str): The extra.
    what (str): What it is needed for.
    RETURNS (Any): The module.
    RAISES (ImportError): CRF426 if it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise ImportError(Errors.CRF426.format(what=what, library=library, extra=extra, error=error)) from error
