"""What the page on segmentation and the configs for Chinese say, checked against the code."""

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
import spacy
import srsly
from spacy.cli.init_config import fill_config
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from spacy.training.initialize import init_nlp
from thinc.api import Config

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "segmentation.md").read_text(encoding="utf8")
CONFIGS = sorted(ROOT.glob("configs/zh_*.cfg"))
SENTENCES = ["我们 喜欢 北京 。", "上海 很 大 。", "我们 去 上海 。"]


def make_docs(vocab):
    docs = []
    for sentence in SENTENCES:
        words = sentence.split()
        doc = Doc(vocab, words=words, spaces=[False] * len(words))
        doc.ents = [Span(doc, i, i + 1, "GPE") for i, word in enumerate(words) if word in ("北京", "上海")]
        docs.append(doc)
    return docs


def load_config(path, tmp_path):
    corpus = tmp_path / "corpus.spacy"
    DocBin(docs=make_docs(spacy.blank("zh").vocab)).to_disk(corpus)
    _, config = fill_config(tmp_path / "filled.cfg", path, silent=True)
    return Config().from_str(config.to_str(), overrides={"paths.train": str(corpus), "paths.dev": str(corpus)})


def test_the_pages_python_runs(capsys):
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL))
    exec(compile(code, "segmentation.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "['我们', '喜欢', '北京', '。']" in printed
    assert "['我们', '喜欢北京', '。']" in printed
    assert len(re.findall(r"^\('", printed, flags=re.MULTILINE)) == 3


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)]+)\)", PAGE))
def test_the_pages_links_lead_somewhere(link):
    assert (ROOT / "docs" / link).exists()


@pytest.mark.slow
def test_the_pages_commands_run(tmp_path, monkeypatch):
    from test_project import run

    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    for name in ("train.txt", "dev.txt"):
        (tmp_path / name).write_text("\n".join(SENTENCES), encoding="utf8")
    (block,) = re.findall(r"^```bash\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    for command in block.splitlines():
        run(*shlex.split(command), *["--training.max_steps", "2"] * (" train " in command), cwd=tmp_path)
    assert (tmp_path / "training" / "model-best" / "segmenter_crf" / "model").is_file()


@pytest.mark.slow
def test_the_project_makes_a_model_of_words_and_entities(tmp_path):
    from test_project import copy_project, run

    project = copy_project(tmp_path / "project")
    output = run(sys.executable, "-m", "weasel", "run", "zh", cwd=project)
    metrics = srsly.read_json(project / "metrics" / "zh.json")
    assert metrics["segmenter_crf"]["token_f"] > 0.7
    assert metrics["ner_crf"]["ents_f"] > 0.1
    *_, example = re.split(r"=+ An example =+", output)
    assert "林若溪" in example
    assert re.search(r"\[\w+ (PERSON|ORG|GPE|DATE|PRODUCT)\]", example)


def test_the_factory_and_the_configs_have_one_segmenter(tmp_path):
    nlp = spacy.blank("zh")
    nlp.add_pipe("segmenter_crf")
    configs = [load_config(path, tmp_path)["components"] for path in CONFIGS]
    segmenters = [config["segmenter_crf"] for config in configs if "segmenter_crf" in config]
    assert len(segmenters) == 2
    assert all(segmenter == nlp.config["components"]["segmenter_crf"] for segmenter in segmenters)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_configs_train(path, tmp_path):
    nlp = init_nlp(load_config(path, tmp_path))
    optimizer = nlp.resume_training()
    optimizer.learn_rate = 0.01
    references = make_docs(nlp.vocab)
    for _ in range(40):
        examples = [Example(nlp.make_doc(doc.text), doc) for doc in references]
        nlp.update(examples, sgd=optimizer, annotates=nlp.config["training"]["annotating_components"])
    scores = nlp.evaluate([Example(nlp.make_doc(doc.text), doc) for doc in references])
    main_scores = {"segmenter_crf": "token_f", "ner_crf": "ents_f"}
    names = [name for name in nlp.pipe_names if name in main_scores]
    assert [scores[main_scores[name]] for name in names] == [1.0] * len(names)
    weights = nlp.config["training"]["score_weights"]
    assert sum(weights[main_scores[name]] for name in names) == 1.0
    for name in names:
        assert set(weights) >= set(nlp.get_factory_meta(name).default_score_weights)


def test_entities_are_found_on_characters(tmp_path):
    nlp = init_nlp(load_config(ROOT / "configs" / "zh_ner_chars.cfg", tmp_path))
    assert nlp.get_pipe("ner_crf").tags == ["O", "B-GPE", "M-GPE", "E-GPE", "S-GPE"]
    assert [token.text for token in nlp("我们去上海。")] == list("我们去上海。")
