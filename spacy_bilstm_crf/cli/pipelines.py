"""What the commands that look into a trained pipeline share."""

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Errors

if TYPE_CHECKING:  # these load slowly, and spaCy imports this module for each of its commands
    from spacy.language import Language
    from spacy.training import Example


def load_pipeline(model: str, gpu_id: int = -1) -> "Language":
    """Load a pipeline onto a device.

    model (str): Name or path of the pipeline.
    gpu_id (int): The GPU, -1 for none.
    RETURNS (Language): The pipeline.
    RAISES (OSError): If there is no such pipeline.
    """
    from spacy import util
    from spacy.cli._util import setup_gpu

    setup_gpu(gpu_id, silent=True)
    return util.load_model(model)


def load_examples(nlp: "Language", path: Path) -> "list[Example]":
    """Load an annotated corpus.

    nlp (Language): The pipeline, which makes the tokens.
    path (Path): A .spacy file, or a directory of such files.
    RETURNS (list[Example]): The examples.
    """
    from spacy.training import Corpus

    return list(Corpus(path)(nlp))


def refuse_to_overwrite(path: Path, force: bool) -> None:
    """Leave alone what exists.

    path (Path): Where something is to be written.
    force (bool): Whether it may be overwritten.
    RAISES (ValueError): CRF471 if it exists and may not.
    """
    if path.exists() and not force:
        raise ValueError(Errors.CRF471.format(path=path))
