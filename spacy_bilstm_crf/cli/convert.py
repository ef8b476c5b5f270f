"""Command `crf convert`: annotated text to spaCy's binary format."""

import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from spacy.cli._util import Arg, Opt
from wasabi.printer import Printer

from ..errors import Errors

if TYPE_CHECKING:  # these load slowly, and spaCy imports this module for each of its commands
    from spacy.language import Language

    from ..formats import ReadOptions, ReadReport

# What is converted if the input is a directory.
SUFFIXES = frozenset(
    {".bilou", ".biluo", ".bio", ".bioes", ".bmes", ".conll", ".conllu", ".io", ".iob", ".iob1", ".iob2", ".iobes"}
    | {".jsonl", ".ndjson", ".ner", ".seg", ".tagged", ".tsv", ".txt"}
)
_N_EXAMPLES = 5


def convert_cli(
    input_path: Path = Arg(..., help="Annotated file, or directory of such files", exists=True),
    output_path: Path = Arg(..., help="The .spacy file to write, or a directory for one .spacy file per input file"),
    lang: str = Opt("en", "--lang", "-l", help="Language of the text"),
    file_format: str = Opt(
        "auto",
        "--format",
        help="Format: auto, tagged (a token and its tag per line), jsonl (texts with character offsets), "
        "seg (a sentence per line, words separated by spaces) or conllu (words only)",
    ),
    scheme: str = Opt("auto", "--scheme", "-s", help="Tag scheme: auto, IOB1, IOB2, BIOES, BILUO, BMES or IO"),
    token_column: int | None = Opt(
        None,
        "--token-column",
        help="Column of the token, from 1, or from -1 at the right. Default: the first that does not number the tokens",
    ),
    tag_column: int = Opt(-1, "--tag-column", help="Column of the tag, from 1, or from -1 at the right"),
    unknown_tag: str | None = Opt(
        None, "--unknown-tag", help="What stands in the tag column for 'not annotated', e.g. '?'"
    ),
    repair: bool = Opt(True, "--repair/--strict", help="Repair what does not fit the scheme, or stop there"),
    n_sents: int = Opt(1, "--n-sents", "-n", help="Sentences per Doc, 0 for whole documents"),
    max_tokens: int = Opt(1000, "--max-tokens", help="Cut sentences that are longer, 0 for no limit"),
    encoding: str = Opt("utf-8", "--encoding", help="Encoding of the input"),
    force: bool = Opt(False, "--force", "-F", help="Overwrite existing files"),
    verbose: bool = Opt(False, "--verbose", "-V", help="List everything that was repaired or left out"),
) -> None:
    """Convert annotated text into .spacy files for training.

    Reads files of tagged tokens as they come (columns separated by tabs or spaces; comments, -DOCSTART- lines, missing
    sentence breaks), JSONL with character offsets, and segmented text. What does not fit is repaired and reported.
    """
    from ..formats import ReadOptions

    msg = Printer()
    try:
        options = ReadOptions(
            format=file_format,
            scheme=scheme,
            token_column=token_column,
            tag_column=tag_column,
            unknown_tag=unknown_tag,
            strict=not repair,
            n_sents=n_sents,
            max_tokens=max_tokens,
            encoding=encoding,
        )
        convert(input_path, output_path, lang=lang, options=options, force=force, verbose=verbose, msg=msg)
    except (ValueError, ImportError, OSError) as error:
        msg.fail("Nothing was written for this input", str(error), exits=1)


def convert(
    input_path: Path,
    output_path: Path,
    *,
    lang: str = "en",
    options: "ReadOptions | None" = None,
    force: bool = False,
    verbose: bool = False,
    msg: Printer | None = None,
) -> list["ReadReport"]:
    """Convert a file, or every file of a directory.

    input_path (Path): An annotated file, or a directory.
    output_path (Path): A .spacy file, or a directory.
    lang (str): Language of the text.
    options (ReadOptions | None): What is known about the files.
    force (bool): Overwrite existing files.
    verbose (bool): List everything that was repaired or left out.
    msg (Printer | None): Prints the summary.
    RETURNS (list[ReadReport]): What was read from each file.
    RAISES (ValueError): CRF400 to CRF407 if a file cannot be read, CRF408 if there is nothing in it, CRF409 if an
        output file exists, CRF410 if files of a directory cannot be told apart, CRF411 if the directory has none.
    """
    import spacy

    from ..formats import ReadOptions

    msg = msg or Printer(no_print=True)
    targets = plan(input_path, output_path, msg)
    existing = [str(path) for path in targets.values() if path.exists()]
    if existing and not force:
        raise ValueError(Errors.CRF409.format(paths=", ".join(existing)))
    nlp = spacy.blank(lang)
    reports = []
    for source, target in targets.items():
        reports.append(_convert_file(source, target, nlp, options or ReadOptions(), msg))
        _summarize(reports[-1], target, msg, verbose)
    return reports


def plan(input_path: Path, output_path: Path, msg: Printer) -> dict[Path, Path]:
    """Decide what is written where.

    input_path (Path): A file or directory.
    output_path (Path): A .spacy file or a directory.
    msg (Printer): Prints what is left out.
    RETURNS (dict[Path, Path]): The output file of each input file.
    RAISES (ValueError): CRF410 if a directory would go to one file, or two files to the same one, CRF411 if a directory
        has no file to convert.
    """
    if input_path.is_file():
        is_file = output_path.suffix == ".spacy" and not output_path.is_dir()
        return {input_path: output_path if is_file else output_path / f"{input_path.stem}.spacy"}
    if output_path.suffix == ".spacy" or output_path.is_file():
        raise ValueError(Errors.CRF410.format(paths=input_path, target=output_path))
    found = sorted(path for path in input_path.rglob("*") if path.is_file() and not path.name.startswith("."))
    sources = [path for path in found if path.suffix.lower() in SUFFIXES]
    if not sources:
        raise ValueError(Errors.CRF411.format(path=input_path, suffixes=" ".join(sorted(SUFFIXES))))
    if len(sources) < len(found):
        msg.info(f"Left out by their names: {', '.join(path.name for path in found if path not in sources)}")
    targets = {path: output_path / path.relative_to(input_path).with_suffix(".spacy") for path in sources}
    for target, n in Counter(targets.values()).items():
        if n > 1:
            same = ", ".join(str(path) for path in sources if targets[path] == target)
            raise ValueError(Errors.CRF410.format(paths=same, target=target))
    return targets


def _convert_file(source: Path, target: Path, nlp: "Language", options: "ReadOptions", msg: Printer) -> "ReadReport":
    from spacy.tokens import DocBin

    from ..formats import ReadReport, read_docs

    msg.divider(source.name)
    report = ReadReport()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # user data holds the known tags of Docs that are annotated in part
        docs = DocBin(docs=read_docs(source, nlp, options=options, report=report), store_user_data=True)
    for warning in caught:
        msg.warn(str(warning.message))
    if not report.n_docs:
        raise ValueError(Errors.CRF408.format(path=source))
    target.parent.mkdir(parents=True, exist_ok=True)
    docs.to_disk(target)
    return report


def _summarize(report: "ReadReport", target: Path, msg: Printer, verbose: bool) -> None:
    for note in report.notes:
        msg.info(note)
    for finding, found in report.findings.items():
        msg.warn(f"{len(found)} x {finding.value}")
        shown = found if verbose else found[:_N_EXAMPLES]
        for example in shown:
            msg.text(f"line {example.removeprefix(f'{report.path}:')}")
        if len(found) > len(shown):
            msg.text(f"... and {len(found) - len(shown)} more (--verbose lists all)")
    msg.table(_rows(report), aligns=("l", "r"))
    if report.format in ("tagged", "jsonl") and not report.n_ents:
        msg.warn("There is not one entity in this file.")
    msg.good(f"{report.n_docs} Docs in {target}")


def _rows(report: "ReadReport") -> list[tuple[str, str | int]]:
    has_entities = report.format in ("tagged", "jsonl")
    rows: list[tuple[str, str | int]] = [("Format", f"{report.format} {report.scheme}".strip())]
    rows += [("Sentences", report.n_sents), ("Tokens", report.n_tokens)]
    if has_entities:
        rows += [("Entities", report.n_ents)]
        rows += [(f"  {label}", n) for label, n in report.labels.most_common()]
        rows += [("Tokens not annotated", report.n_unknown)] if report.n_unknown else []
    rows += [("Comments", report.n_comments)] if report.n_comments else []
    rows += [("Rejected lines left out", report.n_skipped)] if report.n_skipped else []
    return rows
