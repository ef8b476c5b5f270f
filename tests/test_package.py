"""The package as a whole: who imports whom, what is registered, how its errors and documentation are kept."""

import ast
import configparser
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from spacy.language import Language
from spacy.util import registry

from spacy_bilstm_crf.errors import Errors, Warnings

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "spacy_bilstm_crf"
FILES = sorted(PACKAGE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text(encoding="utf8")) for path in FILES}

# The rooms of the house and who may import whom. A room is a file or folder of the package; one may always import from
# itself. Pipes reach architectures through the registry only.
MAY_IMPORT = {
    "errors": set(),
    "threads": set(),
    "batching": {"errors"},
    "tag_scheme": {"errors"},
    "crf": {"errors"},
    "network": {"errors", "batching"},
    "char_network": {"batching", "network"},
    "types": {"errors"},
    "layers": {"errors", "threads", "batching", "network", "char_network", "types", "characters"},
    "architectures": {"errors", "types", "layers"},
    "inference": {"errors", "threads", "batching", "crf", "types"},
    "objectives": {"errors", "batching", "crf", "types", "inference"},
    "probabilities": {"errors", "batching", "crf", "types", "inference"},
    "scaling": {"types"},
    "readers": {"errors", "types"},
    "characters": {"errors"},
    "tokenizers": {"errors", "characters"},
    "scorers": {"errors", "tag_scheme", "types"},
    "formats": {"errors", "tag_scheme", "types"},
    "pipeline": {
        "errors",
        "tag_scheme",
        "types",
        "characters",
        "inference",
        "objectives",
        "probabilities",
        "scaling",
        "scorers",
    },
    "report": {"errors", "types", "probabilities", "scaling", "pipeline"},
    "annotate": {"errors", "pipeline"},
    "cli": {
        "errors",
        "tag_scheme",
        "types",
        "inference",
        "scaling",
        "scorers",
        "formats",
        "pipeline",
        "report",
        "annotate",
    },
}
# What rooms may import beside the standard library. A room that is not here is free, apart from `MAY_NOT_IMPORT`.
MAY_IMPORT_LIBRARIES = {
    "errors": set(),
    "threads": {"torch"},
    "batching": {"torch"},
    "tag_scheme": {"numpy", "spacy.training.iob_utils"},
    "crf": {"torch"},
    "network": {"torch"},
    "char_network": {"torch"},
    "types": {"numpy", "spacy", "thinc", "torch"},
    "characters": {"numpy"},
}
MAY_NOT_IMPORT = {
    "pipeline": {"torch"},
    "scorers": {"torch"},
    "formats": {"torch", "thinc"},
    "architectures": {"torch"},
}

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def get_room(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def get_imports(path: Path) -> Iterator[str]:
    """Yield the dotted name of everything that a file imports, at its top or inside of functions."""
    package = ["spacy_bilstm_crf", *path.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) - node.level + 1] if node.level else []
            base = [*parents, *([node.module] if node.module else [])]
            yield from (".".join([*base, alias.name]) for alias in node.names)


def get_definitions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Definition]]:
    """Yield functions, classes and methods with their dotted names; not the functions inside of functions."""
    for node in getattr(tree, "body", ()):
        if isinstance(node, Definition):
            yield prefix + node.name, node
        if isinstance(node, ast.ClassDef):
            yield from get_definitions(node, f"{prefix}{node.name}.")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_keep_to_the_table(path):
    room = get_room(path)
    if room == "__init__":
        return
    assert room in MAY_IMPORT, f"{path} is a new room: give it its lines in the tables"
    for name in get_imports(path):
        top, _, rest = name.partition(".")
        if top == "spacy_bilstm_crf":
            assert rest.split(".")[0] in MAY_IMPORT[room] | {room}, f"{room} may not import {name}"
        elif top not in sys.stdlib_module_names:
            allowed = MAY_IMPORT_LIBRARIES.get(room)
            assert allowed is None or any(f"{name}.".startswith(f"{library}.") for library in allowed), name
            assert top not in MAY_NOT_IMPORT.get(room, ()), f"{room} may not import {top}"


def test_the_import_table_has_no_circles():
    for room, others in MAY_IMPORT.items():
        assert not any(room in MAY_IMPORT[other] for other in others), room


def read_entry_points() -> list[tuple[str, str, str]]:
    setup = configparser.ConfigParser(delimiters=("=",))
    setup.optionxform = str
    setup.read(ROOT / "setup.cfg", encoding="utf8")
    lines = [
        (group, *(part.strip() for part in line.split("=", 1)))
        for group, text in setup["options.entry_points"].items()
        for line in text.strip().splitlines()
    ]
    return [line for line in lines if len(line) == 3]


ENTRY_POINTS = read_entry_points()


def test_the_installed_package_has_the_entry_points_of_setup_cfg():
    installed = metadata.distribution("spacy-bilstm-crf").entry_points
    assert sorted((ep.group, ep.name, ep.value) for ep in installed) == sorted(ENTRY_POINTS)


@pytest.mark.parametrize(("group", "name", "value"), ENTRY_POINTS)
def test_every_registered_name_can_be_looked_up(group, name, value):
    module, _, attribute = value.partition(":")
    registered = getattr(importlib.import_module(module), attribute)
    if group == "spacy_factories":
        assert Language.has_factory(name)
    elif group == "spacy_cli":
        assert registry.cli.get(name) is registered
    else:
        assert getattr(registry, group.removeprefix("spacy_")).get(name) is registered


def test_what_is_registered_loads_no_optional_library():
    # spaCy loads every registered factory for `spacy.blank`: whoever has the package installed pays for its imports.
    modules = sorted({value.partition(":")[0] for *_, value in ENTRY_POINTS})
    optional = ["transformers", "spacy_transformers", "ray", "pyarrow", "altair", "plotly", "matplotlib"]
    code = f"import sys, {', '.join(modules)}; sys.exit(' '.join(set({optional}) & set(sys.modules)) or 0)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(("group", "name", "value"), ENTRY_POINTS)
def test_registered_names_are_ours_and_have_a_version(group, name, value):
    if group in ("spacy_factories", "spacy_cli"):
        assert re.fullmatch(r"[a-z]+(_crf)?", name) or name == "crf"
    else:
        assert re.fullmatch(r"spacy-bilstm-crf\.([A-Z][A-Za-z]+|[a-z][a-z_]+)\.v\d+", name)
        assert value.endswith(name.rsplit(".", 1)[1]), f"{name} and {value} differ in their versions"


def test_every_versioned_builder_is_registered():
    values = {value for *_, value in ENTRY_POINTS}
    for path, tree in TREES.items():
        for name, _ in get_definitions(tree):
            if re.fullmatch(r"(build|make)_\w+_v\d+", name):
                module = ".".join(["spacy_bilstm_crf", *path.relative_to(PACKAGE).with_suffix("").parts])
                assert f"{module}:{name}" in values


def get_messages() -> list[tuple[str, str]]:
    tree = TREES[PACKAGE / "errors.py"]
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    assigned = [node for cls in classes for node in cls.body if isinstance(node, ast.Assign)]
    return [(node.targets[0].id, ast.literal_eval(node.value)) for node in assigned]


MESSAGES = get_messages()
SOURCES = "\n".join(path.read_text(encoding="utf8") for path in FILES)
TESTS = "\n".join(path.read_text(encoding="utf8") for path in sorted((ROOT / "tests").rglob("*.py")))


def test_codes_are_in_order_and_given_once():
    for holder in (Errors, Warnings):
        codes = [code for code, _ in MESSAGES if hasattr(holder, code)]
        assert codes == sorted(codes)
    codes = [code for code, _ in MESSAGES]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize(("code", "text"), MESSAGES)
def test_messages_are_coded_sentences(code, text):
    assert re.fullmatch(r"CRF[0-4]\d\d", code)
    assert text.startswith(f"[{code}] ")
    assert text.endswith((".", ")", "`", "}")), "ends with what to do"
    assert len(text.split()) >= 8, "says what was wrong, what was received, and what to do"


@pytest.mark.parametrize(("code", "text"), MESSAGES)
def test_every_code_is_used_and_tested(code, text):
    holder = "Errors" if hasattr(Errors, code) else "Warnings"
    assert re.search(rf"\b{holder}\.{code}\b", SOURCES), "nothing raises it"
    assert code in TESTS, "no test provokes it"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_errors_are_raised_with_a_code(path):
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            raised = ast.unparse(node.exc)
            if not raised.startswith(("NotImplementedError", "AttributeError", "typer.Exit", "SystemExit")):
                assert re.search(r"Errors\.CRF\d{3}", raised), raised


def test_the_defined_codes_are_those_in_use():
    used = set(re.findall(r"\b(?:Errors|Warnings)\.(CRF\d{3})\b", SOURCES))
    assert used == {code for code, _ in MESSAGES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_everything_public_is_documented(path):
    tree = TREES[path]
    if path.stat().st_size:
        assert ast.get_docstring(tree), "the module has no docstring"
    for name, node in get_definitions(tree):
        if not any(part.startswith("_") for part in name.split(".")):
            assert ast.get_docstring(node), f"{name} has no docstring"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_docstrings_name_every_argument_that_they_describe(path):
    for name, node in get_definitions(TREES[path]):
        described = set(re.findall(r"^\*{0,2}(\w+) \(.+?\): ", ast.get_docstring(node) or "", flags=re.MULTILINE))
        if isinstance(node, ast.ClassDef) or not described:
            continue
        args = node.args
        names = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
        arguments = {arg.arg for arg in names if arg} - {"self", "cls"}
        described -= {"RETURNS", "YIELDS", "RAISES", "REFERENCE"}
        assert described <= arguments, f"{name} has no {described - arguments}"
        public = not any(part.startswith("_") for part in name.split("."))
        assert not public or arguments <= described, f"{name} leaves out {arguments - described}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_and_functions_stay_short(path):
    assert len(path.read_text(encoding="utf8").splitlines()) <= 320
    for name, node in get_definitions(TREES[path]):
        if not isinstance(node, ast.ClassDef):
            docstring = node.body[0] if ast.get_docstring(node) else None
            length = (
                node.end_lineno - node.lineno + 1 - (docstring.end_lineno - docstring.lineno + 1 if docstring else 0)
            )
            assert length <= 50, f"{name} has {length} lines"
