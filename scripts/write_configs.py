"""Write configs/ner.cfg, ner_vectors.cfg and ner_trf.cfg from the template of `spacy crf init-config`.

To be run when the template, the factory's default or what vectors and transformers change in it has been edited.
"""

from pathlib import Path

from spacy_bilstm_crf.cli.init_config import Choices, render_config

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
# Everyone has other vectors, so their name is left open.
CHOICES = {
    "ner.cfg": Choices(),
    "ner_vectors.cfg": Choices(vectors=""),
    "ner_trf.cfg": Choices(transformer="roberta-base"),
}


def main() -> None:
    """Write the configs."""
    for name, choices in CHOICES.items():
        (CONFIGS / name).write_text(render_config(choices), encoding="utf8")


if __name__ == "__main__":
    main()
