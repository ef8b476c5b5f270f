"""docs/annotation.md, held to the code."""

import re
from pathlib import Path

import pytest
from spacy.util import registry
from thinc.api import Config

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "annotation.md").read_text(encoding="utf8")


def get_blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_the_examples_run_one_after_another():
    names = {}
    blocks = get_blocks("python")
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, "docs/annotation.md", "exec"), names)
    pipe = names["nlp"].get_pipe("ner_crf")
    assert pipe.labels == ("GPE", "PERSON", "PRODUCT")
    assert pipe.n_unusable_entities == pipe.n_unusable_tags == 0


def test_the_config_resolves():
    (block,) = get_blocks("ini")
    corpora = registry.resolve(Config().from_str(f"[corpora]\n\n{block}")["corpora"])
    assert callable(corpora["train"])


@pytest.mark.parametrize("link", re.findall(r"\]\((?!https?:)([^)#]+)\)", PAGE))
def test_links_lead_somewhere(link):
    assert (ROOT / "docs" / link).exists()
