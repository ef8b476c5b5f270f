"""What a person meets first: the README, the configs and the project, checked against the code."""

import importlib.util
import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest
import spacy
import srsly
from spacy import util
from spacy.cli.init_config import fill_config, init_config
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.util import registry
from thinc.api import Config
from weasel.util import load_project_config

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf8")
NAME = "spacy-bilstm-crf"
DOCS = "\n".join([README, *(path.read_text(encoding="utf8") for path in sorted(ROOT.glob("docs/*.md")))])
PROJECT = srsly.read_yaml(ROOT / "project.yml")
# Those that need nothing beside the corpus; tests/test_configs.py has all.
CONFIGS = [ROOT / "configs" / name for name in ("ner.cfg", "ner_shared.cfg")]
SENTENCES = [
    (["Anna", "Kaya", "moved", "to", "Lisbon", "."], ["B-PERSON", "I-PERSON", "O", "O", "B-GPE", "O"]),
    (["Lisbon", "is", "where", "Omar", "works", "."], ["B-GPE", "O", "O", "B-PERSON", "O", "O"]),
]


def get_blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def get_block_after(comment: str, language: str) -> str:
    found = re.findall(rf"^<!-- {re.escape(comment)} -->\n```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert len(found) == 1, comment
    return found[0]


def get_tables(comment: str) -> list[list[str]]:
    """Read the rows of the tables that follow a comment, up to the next heading or comment."""
    text = re.split(r"^(?:#|<!--)", DOCS.split(f"<!-- {comment} -->")[1], flags=re.MULTILINE)[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line[:1] == "|"]
    return [row for row in rows if row[0].startswith("`")]


def run(*command: str | Path, cwd: Path, timeout: int = 1800) -> str:
    """Run a command with this Python in front of others, and return what it printed."""
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    result = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


def write_corpus(path: Path) -> Path:
    vocab = spacy.blank("en").vocab
    DocBin(docs=[Doc(vocab, words=words, ents=tags) for words, tags in SENTENCES]).to_disk(path)
    return path


def load_config(path: Path, tmp_path: Path, **overrides: object) -> Config:
    corpus = write_corpus(tmp_path / "corpus.spacy")
    _, config = fill_config(tmp_path / "filled.cfg", path, silent=True)
    return Config().from_str(
        config.to_str(),
        overrides={"paths.train": str(corpus), "paths.dev": str(corpus), **overrides},
    )


@pytest.mark.parametrize("name", ["run", "test"])
def test_the_commands_of_the_readme_set_everything_up(name):
    printed = run(sys.executable, "scripts/readme_command.py", name, cwd=ROOT).strip()
    assert printed == get_block_after(f"command: {name}", "bash").strip()
    first, install, command = printed.split(" && ")
    assert first == "python3 -m venv .venv"
    extras = re.search(r'"\.\[(.+)\]"$', install).group(1).split(",")
    setup = (ROOT / "setup.cfg").read_text(encoding="utf8")
    assert all(f"\n{extra} =\n" in setup for extra in extras)
    assert command.removeprefix("OMP_NUM_THREADS=1 ").startswith(".venv/bin/python -m ")
    for part in shlex.split(install):
        assert not part.endswith(".txt") or (ROOT / part).is_file()


def test_ci_runs_the_test_command_of_the_readme():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf8")
    assert "scripts/readme_command.py test" in script
    assert "-m pytest" not in script
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_the_readmes_python_runs():
    blocks = get_blocks("python")
    assert blocks
    for block in blocks:
        output = run(sys.executable, "-c", block, cwd=ROOT)
        assert "('Anna Kaya', 'PERSON'), ('Lisbon', 'GPE')" in output


@pytest.mark.slow
def test_the_readmes_training_commands_run(tmp_path):
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    text = "\n\n".join("\n".join(map("\t".join, zip(words, tags, strict=True))) for words, tags in SENTENCES)
    for name in ("train.iob", "dev.iob"):
        (tmp_path / name).write_text(text, encoding="utf8")
    commands = get_block_after("run in a folder with train.iob and dev.iob", "bash").splitlines()
    for command in commands:
        options = ["--training.max_steps", "2"] if " train " in command else []
        run(*shlex.split(command), *options, cwd=tmp_path)
    assert (tmp_path / "training" / "model-best" / "config.cfg").is_file()


def test_three_lines_move_a_config_from_ner(tmp_path):
    text = get_block_after("in place of [components.ner] and [components.ner.model]", "ini")
    assert sum("=" in line for line in text.splitlines()) == 3
    block = Config().from_str(f"[components]\n\n{text}")
    config = init_config(lang="en", pipeline=["ner"], optimize="efficiency", silent=True)
    tok2vec = config["components"]["ner"]["model"]["tok2vec"]
    config["components"]["ner"] = block["components"]["ner"]
    config["components"]["ner"]["model"]["tok2vec"] = tok2vec
    config["paths"]["train"] = config["paths"]["dev"] = str(write_corpus(tmp_path / "corpus.spacy"))
    nlp = init_nlp(config)
    assert nlp.pipe_names == ["tok2vec", "ner"]
    assert nlp.get_pipe_meta("ner").factory == "ner_crf"
    assert [doc.text for doc in nlp.pipe(["Anna Kaya moved."])] == ["Anna Kaya moved."]


def get_code_defaults(name: str) -> dict[str, object]:
    if name.endswith("_crf"):
        return dict(spacy.blank("en").get_factory_meta(name).default_config)
    parameters = inspect.signature(registry.architectures.get(name)).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters}


@pytest.mark.parametrize("name", re.findall(r"<!-- settings: (.+) -->", DOCS))
def test_the_documented_settings_are_those_of_the_code(name):
    defaults = get_code_defaults(name)
    rows = get_tables(f"settings: {name}")
    assert sorted(setting.strip("`") for setting, *_ in rows) == sorted(defaults)
    for setting, shown, meaning in rows:
        default = defaults[setting.strip("`")]
        assert meaning.endswith(".")
        # What is a layer, or has no default, is described in words.
        if (isinstance(default, dict) and "@architectures" in default) or default is inspect.Parameter.empty:
            continue
        expected = list(default) if isinstance(default, tuple) else default
        assert json.loads(shown.strip("`")) == expected, setting


def test_every_registered_architecture_and_factory_is_documented():
    documented = set(re.findall(r"<!-- settings: (.+) -->", DOCS))
    ours = [name for name in registry.architectures.get_all() if name.startswith("spacy-bilstm-crf.")]
    factories = [point.name for point in metadata.entry_points(group="spacy_factories") if point.dist.name == NAME]
    assert documented == {*ours, *factories}


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\((?!https?:)([^)#]+)\)", README))))
def test_the_readmes_links_lead_somewhere(link):
    assert (ROOT / link).exists()


def test_the_factory_and_ner_cfg_are_one_architecture(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("ner_crf")
    config = load_config(ROOT / "configs" / "ner.cfg", tmp_path)
    assert config["components"] == nlp.config["components"]
    assert config["nlp"]["pipeline"] == ["ner_crf"]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_configs_need_no_options(path, tmp_path):
    # What `fill-config` adds are spaCy's own defaults: nothing that we would have to say is missing.
    config = util.load_config(path)
    filled = load_config(path, tmp_path)
    assert set(config["components"]) == set(filled["components"])
    assert config["training"]["score_weights"]["ents_f"] == 1.0


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_configs_train(path, tmp_path):
    nlp = init_nlp(load_config(path, tmp_path))
    examples = [
        Example(Doc(nlp.vocab, words=words), Doc(nlp.vocab, words=words, ents=tags)) for words, tags in SENTENCES
    ]
    optimizer = nlp.resume_training()
    losses = [nlp.update(examples, sgd=optimizer, losses={})["ner_crf"] for _ in range(40)]
    assert losses[-1] < 0.5 * losses[0]
    assert nlp.evaluate(examples)["ents_f"] == 1.0


def test_the_project_is_what_weasel_reads():
    config = load_project_config(ROOT, overrides={"vars.wnut17_dir": "some folder"})
    commands = {command["name"]: command for command in config["commands"]}
    assert "--local 'some folder'" in commands["wnut17-data"]["script"][0]


@pytest.mark.parametrize("command", PROJECT["commands"], ids=lambda command: command["name"])
def test_every_step_says_what_it_reads_and_writes(command):
    assert command["help"].endswith(".")
    assert command["outputs"]
    # Only what fetches data starts from nothing.
    assert command.get("deps") or command["name"] == "wnut17-data"
    for script in command["script"]:
        for part in shlex.split(script):
            if part.startswith("scripts/") and part.endswith(".py"):
                assert (ROOT / part).is_file()


def test_every_step_of_a_workflow_has_what_it_reads():
    commands = {command["name"]: command for command in PROJECT["commands"]}
    for steps in PROJECT["workflows"].values():
        written = []
        for step in steps:
            for dep in commands[step].get("deps", ()):
                source = dep.startswith(("assets/${vars.corpus}", "assets/zh", "configs/", "scripts/"))
                assert source or dep in written, f"{step} reads {dep}, which no step before it writes"
            written.extend(commands[step]["outputs"])


def test_assets_are_described_and_downloads_are_extra():
    for asset in PROJECT["assets"]:
        assert asset["description"].endswith(".")
        assert asset.get("extra", False) == ("url" in asset)


def test_the_readme_lists_the_project():
    rows = [tuple(row) for row in get_tables("project")]
    workflows = [
        (f"`{name}`", ", ".join(f"`{step}`" for step in steps)) for name, steps in PROJECT["workflows"].items()
    ]
    assert rows == [*workflows, *((f"`{command['name']}`", command["help"]) for command in PROJECT["commands"])]


def test_the_readmes_picture_shows_the_projects_sentence():
    svg = ElementTree.parse(ROOT / "docs" / "example.svg").getroot()
    text = PROJECT["vars"]["text"]
    assert svg.find("{*}title").text.startswith(f"{text} Entities: ")
    assert text in README
    drawn = "".join(element.text for element in svg.findall("{*}text") if not element.get("font-weight"))
    assert drawn.replace(" ", "") == text.replace(" ", "")


def test_a_drawing_holds_all_of_a_text():
    words = ["Is", "“", "Ana", "&", "Co", "<", "new", ">", "”", "in", "Rome", "?"] * 3
    spaces = [True, False, True, True, True, False, False, False, True, True, False, True] * 3
    tags = ["O", "O", "B-ORG", "I-ORG", "I-ORG", "O", "O", "O", "O", "O", "B-CITY", "O"] * 3
    nlp = spacy.blank("en")
    doc = Doc(nlp.vocab, words=words, spaces=spaces, ents=tags)
    svg = ElementTree.fromstring(load_script("draw_entities").draw(doc))
    texts = [element.text for element in svg.findall("{*}text")]
    assert "".join(texts).replace(" ", "").count("ORG") == texts.count("ORG") == 3
    drawn = "".join(text for text in texts if text not in ("ORG", "CITY"))
    assert drawn.replace(" ", "") == doc.text.replace(" ", "")
    right_edges = [float(element.get("x")) + float(element.get("textLength")) for element in svg.findall("{*}text")]
    assert max(right_edges) <= float(svg.get("viewBox").split()[2])


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def copy_project(path: Path) -> Path:
    """Copy what a fresh clone would hold."""
    made = ["/assets/wnut17", "/corpus", "/metrics", "/packages", "/training"]
    ignored = (ROOT / ".gitignore").read_text(encoding="utf8").splitlines()
    assert all(f"{folder}/" in ignored for folder in made)
    names = {*(Path(folder).name for folder in made), ".git", ".venv", "build", "project.lock"}
    shutil.copytree(ROOT, path, ignore=lambda _, found: names & set(found))
    return path


def test_wnut17_can_be_taken_from_a_local_folder(tmp_path):
    project = copy_project(tmp_path / "project")
    source = tmp_path / "local"
    source.mkdir()
    for part in ("train", "dev", "test"):
        (source / f"{part}.conll").write_text(f"{part}\tO\n", encoding="utf8")
    run(sys.executable, "scripts/wnut17_data.py", "assets/wnut17", "--local", source, cwd=project)
    assert (project / "assets" / "wnut17" / "dev.iob").read_text(encoding="utf8") == "dev\tO\n"


def test_a_missing_local_folder_is_reported(tmp_path):
    script = ROOT / "scripts" / "wnut17_data.py"
    command = [sys.executable, str(script), str(tmp_path / "out"), "--local", str(tmp_path / "nowhere")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1
    assert "There is no" in result.stdout
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_main_command_ends_with_scores_and_an_example(tmp_path):
    project = copy_project(tmp_path / "project")
    output = run(sys.executable, "-m", "weasel", "run", "all", cwd=project)
    metrics = srsly.read_json(project / "metrics" / "en.json")
    *_, scores, example = re.split(r"=+ (?:Test scores|An example) =+", output)
    assert f"{100 * metrics['ents_f']:.1f}" in scores
    assert re.search(r"\[[\w ]+ (PERSON|ORG|GPE|DATE|PRODUCT)\]", example)
    assert metrics["ents_f"] > 0.5
    assert str(project / "packages" / "env") in output.replace("\n", "")
