"""Command `crf rank`: which texts to annotate next."""

from pathlib import Path

import typer
from spacy.cli._util import Arg, Opt
from wasabi.printer import Printer

from ..errors import Errors
from .pipelines import load_pipeline, refuse_to_overwrite


def rank_cli(
    model: str = Arg(..., help="Name or path of the trained pipeline"),
    texts: Path = Arg(..., help="Texts: .jsonl, or any other file with a text a line", exists=True, dir_okay=False),
    output: Path = Arg(..., help="The .jsonl file to write", dir_okay=False),
    by: str = Opt("entropy", "--by", "-b", help="What to rank by: entropy, least-confidence or margin"),
    per_token: bool = Opt(False, "--per-token", help="Divide the entropy by the number of tokens"),
    limit: int | None = Opt(None, "--limit", "-n", help="How many texts to write. Default: all", min=1),
    text_field: str = Opt("text", "--text-field", help="Field that holds the text, in .jsonl"),
    component: str | None = Opt(None, "--component", "-C", help="Name of the ner_crf component, if there are several"),
    batch_size: int = Opt(256, "--batch-size", help="Number of texts at a time", min=1),
    gpu_id: int = Opt(-1, "--gpu-id", "-g", help="GPU to use, -1 for none"),
    force: bool = Opt(False, "--force", "-F", help="Overwrite the output"),
) -> None:
    """Order raw texts by how unsure a model is of them, to annotate those first from which it learns most.

    The output is JSONL that annotation tools read: each line has the text, what the model would annotate ("spans"), and
    its figures ("meta"). The most uncertain text comes first; equal ones stay in their order.
    """
    msg = Printer()
    try:
        n_texts = rank(
            model,
            texts,
            output,
            by=by,
            per_token=per_token,
            limit=limit,
            text_field=text_field,
            component=component,
            batch_size=batch_size,
            gpu_id=gpu_id,
            force=force,
            show_progress=True,
        )
    except (ValueError, OSError) as error:
        msg.fail("The texts could not be ranked", str(error))
        raise typer.Exit(1) from error
    msg.good(f"{n_texts:,} texts in {output}, the most uncertain first")


def rank(
    model: str,
    texts: Path,
    output: Path,
    *,
    by: str = "entropy",
    per_token: bool = False,
    limit: int | None = None,
    text_field: str = "text",
    component: str | None = None,
    batch_size: int = 256,
    gpu_id: int = -1,
    force: bool = False,
    show_progress: bool = False,
) -> int:
    """Order raw texts by how unsure a model is of them.

    model (str): Name or path of the trained pipeline.
    texts (Path): JSONL, or a file with a text on each line.
    output (Path): The JSONL file to write.
    by (str): "entropy", "least-confidence" or "margin".
    per_token (bool): Divide the entropy by the number of tokens.
    limit (int | None): How many texts to write; None for all.
    text_field (str): Field that holds the text.
    component (str | None): Name of the recognizer, if there are several.
    batch_size (int): Number of texts at a time.
    gpu_id (int): The GPU, -1 for none.
    force (bool): Overwrite the output.
    show_progress (bool): Show a progress bar.
    RETURNS (int): Number of texts written.
    RAISES (ValueError): CRF470, CRF471, CRF473 or CRF474 if something is not as it should be, CRF476 on an unknown
        measure.
    """
    from tqdm import tqdm

    from ..report.ranking import MEASURES, read_texts, score_texts, write_ranking

    if by not in MEASURES:
        raise ValueError(Errors.CRF476.format(by=by, expected=", ".join(MEASURES)))
    refuse_to_overwrite(output, force)
    nlp = load_pipeline(model, gpu_id)
    ranked = score_texts(nlp, read_texts(texts, text_field), component=component, batch_size=batch_size)
    shown = tqdm(ranked, unit=" texts", disable=None if show_progress else True)
    n_texts = write_ranking(shown, output, measure=by, per_token=per_token, limit=limit)
    if not n_texts:
        raise ValueError(Errors.CRF474.format(path=texts))
    return n_texts
