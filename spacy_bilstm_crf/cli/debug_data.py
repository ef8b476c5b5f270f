"""Command `crf debug-data`: look at the corpora of a config before training on them."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from spacy.cli._util import Arg, Opt, import_code, parse_config_overrides, show_validation_error
from wasabi.printer import Printer

from ..errors import Errors

if TYPE_CHECKING:  # these load slowly, and spaCy imports this module for each of its commands
    from .corpus_check import CorpusCheck

_N_EXAMPLES = 3
# Labels with fewer entities can hardly be learnt from scratch.
_RARE = 20
_FEW_DOCS = 100
_LONG_DOC = 2000


def debug_data_cli(
    ctx: typer.Context,  # holds the overrides of the config
    config_path: Path = Arg(..., help="Config to train with", exists=True, allow_dash=True),
    component: str | None = Opt(None, "--component", "-C", help="Name of the component, if there are several"),
    code_path: Path | None = Opt(None, "--code", "-c", help="Python file with registered functions to import"),
    verbose: bool = Opt(False, "--verbose", "-V", help="Show every example of what was found"),
    ignore_warnings: bool = Opt(False, "--ignore-warnings", "-IW", help="Show figures and errors alone"),
    no_format: bool = Opt(False, "--no-format", "-NF", help="No colours and symbols"),
) -> None:
    """Check the data that a config trains ner_crf on.

    Counts labels and lengths, and finds what cannot be learnt: entities that do not fall on tokens, begin or end on
    white space or cross a sentence start, contradictions, texts that are in both corpora, and labels that are too rare.
    Settings of the config can be overridden as in spacy train. Exits with 1 if something would stop a training.
    """
    msg = Printer(pretty=not no_format, ignore_warnings=ignore_warnings)
    overrides = parse_config_overrides(ctx.args)
    import_code(code_path)
    with show_validation_error(config_path, hint_fill=False):
        try:
            n_errors = debug_data(config_path, overrides=overrides, component=component, verbose=verbose, msg=msg)
        except (ValueError, OSError) as error:
            msg.fail("The data could not be checked", str(error), exits=1)
    if n_errors:
        raise typer.Exit(1)


def debug_data(
    config_path: Path,
    *,
    overrides: dict[str, Any] | None = None,
    component: str | None = None,
    verbose: bool = False,
    msg: Printer | None = None,
) -> int:
    """Check the corpora of a config.

    config_path (Path): The config.
    overrides (dict | None): Settings that replace its own, by their dotted names.
    component (str | None): Name of the component; None for the only one.
    verbose (bool): Show every example of what was found.
    msg (Printer | None): Prints what was found.
    RETURNS (int): Number of findings that would stop a training.
    RAISES (ValueError): CRF445 if the pipeline has no such component.
    """
    from .corpus_check import leaked_texts

    msg = msg or Printer(no_print=True)
    train, dev = read_corpora(config_path, overrides or {}, component)
    msg.divider("Figures")
    _print_figures(train, dev, msg)
    _print_labels(train, dev, msg)
    n_errors = 0
    for name, check in (("Training", train), ("Development", dev)):
        msg.divider(f"{name} data")
        n_errors += _print_findings(check, verbose, msg)
    msg.divider("Both")
    leaked = leaked_texts(train, dev)
    if leaked:
        _print_examples(
            msg, f"{len(leaked)} x texts of the development data that are training data too", leaked, verbose
        )
    else:
        msg.good("No text is in both")
    return n_errors + _print_verdict(train, dev, msg)


def read_corpora(
    config_path: Path, overrides: dict[str, Any], component: str | None
) -> "tuple[CorpusCheck, CorpusCheck]":
    """Read and check the two corpora of a config.

    config_path (Path): The config.
    overrides (dict): Settings that replace its own.
    component (str | None): Name of the component; None for the only one.
    RETURNS (tuple): What was found in the training and in the development data.
    RAISES (ValueError): CRF445 if the pipeline has no such component.
    """
    from spacy import util
    from spacy.schemas import ConfigSchemaTraining
    from spacy.util import registry, resolve_dot_names

    from ..tag_scheme import TagScheme
    from .corpus_check import CorpusCheck

    config = util.load_config(config_path, overrides=overrides)
    nlp = util.load_model_from_config(config, auto_fill=True)
    interpolated = nlp.config.interpolate()
    training = registry.resolve(interpolated["training"], schema=ConfigSchemaTraining)
    corpora = resolve_dot_names(interpolated, [training["train_corpus"], training["dev_corpus"]])
    names = [name for name in nlp.pipe_names if nlp.get_pipe_meta(name).factory == "ner_crf"]
    if component not in (names if component else [None]) or not names:
        name = f" '{component}'" if component else ""
        raise ValueError(Errors.CRF445.format(name=name, path=config_path, names=", ".join(names) or "none"))
    settings = nlp.get_pipe_config(component or names[0])
    train, dev = (
        CorpusCheck(TagScheme(settings["tag_scheme"]), settings.get("incorrect_spans_key")).add_all(corpus(nlp))
        for corpus in corpora
    )
    return train, dev


def _print_figures(train: "CorpusCheck", dev: "CorpusCheck", msg: Printer) -> None:
    rows = [
        ("Documents", train.n_docs, dev.n_docs),
        ("... annotated in part", train.n_partial, dev.n_partial),
        ("... not annotated", train.n_unannotated, dev.n_unannotated),
        ("Tokens", train.n_tokens, dev.n_tokens),
        ("... not annotated", train.n_missing, dev.n_missing),
        ("Tokens in a document (least / median / most)", *(_spread(check.doc_lengths) for check in (train, dev))),
        ("Entities", train.labels.total(), dev.labels.total()),
        ("Tokens in an entity", *(_spread(check.entity_lengths) for check in (train, dev))),
        ("Incorrect spans", train.n_incorrect, dev.n_incorrect),
    ]
    msg.table(rows, header=("", "Training", "Development"), aligns=("l", "r", "r"), divider=True)
    if any(length > _LONG_DOC for length in train.doc_lengths):
        n_long = sum(n for length, n in train.doc_lengths.items() if length > _LONG_DOC)
        msg.warn(
            f"{n_long} training documents are longer than {_LONG_DOC} tokens: a batch needs memory for all of them"
        )


def _spread(lengths: Counter[int]) -> str:
    """Smallest, median and largest."""
    if not lengths:
        return "-"
    values = sorted(lengths.elements())
    return f"{values[0]} / {values[len(values) // 2]} / {values[-1]}"


def _print_labels(train: "CorpusCheck", dev: "CorpusCheck", msg: Printer) -> None:
    labels = sorted(train.tag_labels | dev.tag_labels, key=lambda label: -train.labels[label])
    rows = [(label, train.labels[label], dev.labels[label]) for label in labels]
    msg.table(rows, header=("Entities of label", "Training", "Development"), aligns=("l", "r", "r"), divider=True)


def _print_findings(check: "CorpusCheck", verbose: bool, msg: Printer) -> int:
    from .corpus_check import ERRORS, WARNINGS

    n_errors = 0
    for kind, text in {**ERRORS, **WARNINGS}.items():
        found = check.findings.get(kind, [])
        if found:
            n_errors += len(found) if kind in ERRORS else 0
            _print_examples(msg, f"{len(found)} x {text}", found, verbose, is_error=kind in ERRORS)
    if not any(check.findings.values()):
        msg.good("Everything can be used")
    return n_errors


def _print_examples(msg: Printer, title: str, examples: list[str], verbose: bool, *, is_error: bool = False) -> None:
    if is_error:
        msg.fail(title)
    else:
        msg.warn(title)
    shown = examples if verbose else examples[:_N_EXAMPLES]
    for example in shown:
        msg.text(f"  {example}")
    if len(examples) > len(shown):
        msg.text(f"  ... and {len(examples) - len(shown)} more (--verbose shows all)")


def _print_verdict(train: "CorpusCheck", dev: "CorpusCheck", msg: Printer) -> int:
    """Say what follows for training as a whole. RETURNS: 1 if there is nothing to train on or to evaluate with."""
    if train.n_docs < _FEW_DOCS:
        msg.warn(f"Only {train.n_docs} training documents")
    rare = [f"{label} ({train.labels[label]})" for label in sorted(train.labels) if train.labels[label] < _RARE]
    if rare:
        msg.warn(f"Labels with fewer than {_RARE} entities in the training data: {', '.join(rare)}")
    unseen = sorted(set(dev.labels) - train.tag_labels)
    if unseen:
        msg.warn(f"Labels of the development data that the training data does not have: {', '.join(unseen)}")
    unscored = sorted(train.tag_labels - set(dev.labels))
    if unscored:
        msg.warn(f"Labels that the development data cannot score: {', '.join(unscored)}")
    if not train.tag_labels:
        msg.fail("There is no entity in the training data")
    if not dev.labels.total():
        msg.fail("There is no entity in the development data")
    return int(not train.tag_labels or not dev.labels.total())
