"""Command `crf init-config`: a complete config for the recognizer, as spaCy's `init config` writes for its pipes."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from spacy.cli._util import Arg, Opt
from wasabi.printer import Printer

from ..errors import Errors
from .pipelines import refuse_to_overwrite

if TYPE_CHECKING:  # these load slowly, and spaCy imports this module for each of its commands
    from thinc.api import Config

_TEMPLATE = "ner.cfg.jinja"
# What pretrained word vectors change in the factory's default.
_WITH_VECTORS = {"model.tok2vec.include_static_vectors": True}
# What a transformer changes: it knows the context already, and learns slowly.
_ON_TRANSFORMER = {"model.depth": 0, "model.lr_scale": 20.0}
_LISTENER = {
    "@architectures": "spacy-transformers.TransformerListener.v1",
    "grad_factor": 1.0,
    "upstream": "transformer",
    "pooling": {"@layers": "reduce_mean.v1"},
}
_ENCODER = {
    "@architectures": "spacy-transformers.TransformerModel.v3",
    "name": "${paths.transformer}",
    "mixed_precision": False,
    "tokenizer_config": {"use_fast": True},
    "get_spans": {"@span_getters": "spacy-transformers.strided_spans.v1", "window": 128, "stride": 96},
}


@dataclass(frozen=True)
class Choices:
    """What a config is wanted for.

    lang (str): Code of the language.
    vectors (str | None): Name or path of a pipeline with word vectors; empty to leave the name open.
    transformer (str | None): Name or path of a transformer.
    gpu (bool): Whether training is on a GPU.
    """

    lang: str = "en"
    vectors: str | None = None
    transformer: str | None = None
    gpu: bool = False


def init_config_cli(
    output: Path = Arg(..., help="File for the config, or - for stdout", allow_dash=True, dir_okay=False),
    lang: str = Opt("en", "--lang", "-l", help="Code of the language, such as en"),
    vectors: str | None = Opt(None, "--vectors", "-v", help="Name or path of a pipeline with word vectors"),
    transformer: str | None = Opt(None, "--transformer", "-t", help="Name or path of a pretrained transformer"),
    gpu: bool = Opt(False, "--gpu/--cpu", "-G", help="Whether training is on a GPU"),
    force: bool = Opt(False, "--force", "-F", help="Overwrite the file if it exists"),
) -> None:
    """Write a complete config for training an entity recognizer (spaCy's `init config` does not know ner_crf).

    Without further options it is the one to start with, and needs no downloads. It gives the same model as
    configs/ner.cfg; with --vectors configs/ner_vectors.cfg, with --transformer configs/ner_trf.cfg.
    """
    is_stdout = str(output) == "-"
    msg = Printer()
    try:
        if not is_stdout:
            refuse_to_overwrite(output, force)
        text = init_config(Choices(lang, vectors, transformer, gpu)).to_str(interpolate=False)
        if not is_stdout:
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text(text, encoding="utf8")
    except (ValueError, ImportError, OSError) as error:
        if is_stdout:  # where only a config is expected
            typer.echo(str(error), err=True)
            raise typer.Exit(1) from error
        msg.fail("No config was written", str(error), exits=1)
    if is_stdout:
        typer.echo(text)
        return
    msg.good("Saved config", output)
    msg.text("You can now add your data and train your pipeline:")
    gpu_id = " --gpu-id 0" if gpu else ""
    # On one line, to be copied.
    typer.echo(
        f"python -m spacy train {output} --paths.train train.spacy --paths.dev dev.spacy --output training{gpu_id}"
    )


def init_config(choices: Choices) -> "Config":
    """Make a complete config.

    choices (Choices): What it is wanted for.
    RETURNS (Config): The config, with its variables, and everything that spaCy would fill in.
    RAISES (ValueError): CRF480 if both vectors and a transformer are wanted, CRF481 if the language is not known,
        CRF482 if there are no vectors.
    RAISES (ImportError): CRF426 if a transformer is wanted and spacy-transformers is not installed.
    """
    from spacy import util

    if choices.vectors is not None and choices.transformer is not None:
        raise ValueError(Errors.CRF480.format(vectors=choices.vectors, transformer=choices.transformer))
    if choices.transformer is not None:
        from ..annotate.extras import require

        require("spacy_transformers", "transformers", "--transformer")
    if choices.vectors is not None:
        _require_vectors(choices.vectors)
    config = util.load_config_from_str(render_config(choices))
    return util.load_model_from_config(config, auto_fill=True).config


def render_config(choices: Choices) -> str:
    """Write a config without what spaCy fills in, with comments.

    choices (Choices): What it is wanted for.
    RETURNS (str): The text.
    RAISES (ValueError): CRF481 if the language is not known.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    components = _make_components(choices)
    environment = Environment(
        loader=PackageLoader("spacy_bilstm_crf.cli"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(_TEMPLATE).render(
        lang=_find_language(choices.lang),
        vectors=None if choices.vectors is None else {"name": json.dumps(choices.vectors or None)},
        transformer=None if choices.transformer is None else {"name": json.dumps(choices.transformer)},
        gpu=choices.gpu,
        pipeline=json.dumps(list(components)),
        components=_to_text(components),
    )


def _make_components(choices: Choices) -> dict[str, Any]:
    from thinc.api import Config

    from ..pipeline.ner_crf import DEFAULT_CONFIG

    changes: dict[str, Any] = _ON_TRANSFORMER if choices.transformer is not None else {}
    changes = _WITH_VECTORS if choices.vectors is not None else changes
    model = Config().from_str(DEFAULT_CONFIG, overrides=changes)["model"]
    components: dict[str, Any] = {}
    if choices.transformer is not None:
        components["transformer"] = {"factory": "transformer", "model": {**_ENCODER, "mixed_precision": choices.gpu}}
        model |= {"tok2vec": _LISTENER, "mixed_precision": choices.gpu}
    components["ner_crf"] = {"factory": "ner_crf", "tag_scheme": "BIOES", "overwrite": False, "model": model}
    return components


def _to_text(components: dict[str, Any]) -> str:
    from thinc.api import Config

    # One at a time: thinc would sort the sections by their depth.
    texts = [
        Config({"components": {name: component}}).to_str(interpolate=False) for name, component in components.items()
    ]
    return "\n\n".join(["[components]", *(text.removeprefix("[components]\n\n") for text in texts)])


def _find_language(lang: str) -> str:
    from spacy import util

    try:
        return util.get_lang_class(lang).lang or lang
    except ImportError as error:
        raise ValueError(Errors.CRF481.format(lang=lang)) from error


def _require_vectors(name: str) -> None:
    from spacy import util

    try:
        # As spaCy does before it trains.
        vectors = util.load_model(name, exclude=["lookups"]).vocab.vectors
    except (OSError, ValueError, ImportError) as error:
        raise ValueError(Errors.CRF482.format(name=name, found=f"cannot be loaded ({error})")) from error
    if not vectors.shape[0] or not vectors.shape[1]:
        raise ValueError(Errors.CRF482.format(name=name, found="has no word vectors"))
