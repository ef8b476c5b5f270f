"""Which texts to annotate next: those that the model is least sure of."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import minibatch

from ..errors import Errors
from ..pipeline.entity_output import split_by_doc
from ..pipeline.ner_crf import NERCRF
from ..probabilities import entropies, n_best_paths
from .scored import find_recognizer, read_predicted

ENTROPY, LEAST_CONFIDENCE, MARGIN = "entropy", "least-confidence", "margin"
MEASURES = (ENTROPY, LEAST_CONFIDENCE, MARGIN)
# Differences below this come from how texts fall into batches.
_DIGITS = 6


@dataclass
class RankedText:
    """A text and how unsure a model is of it.

    text (str): The text.
    fields (dict): What else its line holds.
    entropy (float): Of the distribution over tag paths, in nats.
    confidence (float): Probability of the best tag path.
    margin (float): How much more probable that is than the second best.
    n_tokens (int): Number of tokens.
    spans (list[dict]): What the model would annotate.
    """

    text: str
    fields: dict[str, Any]
    entropy: float
    confidence: float
    margin: float
    n_tokens: int
    spans: list[dict[str, Any]]

    def uncertainty(self, measure: str, per_token: bool = False) -> float:
        """Give a figure that is larger the less sure the model is.

        measure (str): "entropy", "least-confidence" or "margin".
        per_token (bool): Divide the entropy by the number of tokens, so that long texts do not come first.
        RETURNS (float): The figure.
        REFERENCE: Settles & Craven 2008
        """
        if measure == ENTROPY:
            value = self.entropy / max(1, self.n_tokens) if per_token else self.entropy
        else:
            value = 1.0 - (self.confidence if measure == LEAST_CONFIDENCE else self.margin)
        return round(value, _DIGITS)

    def to_json(self, measure: str, per_token: bool = False) -> dict[str, Any]:
        """Write the text as annotation tools read it: with spans to correct, and figures to sort by.

        measure (str): What it was ranked by.
        per_token (bool): Whether the entropy counts per token.
        RETURNS (dict): What goes on a line.
        """
        given = self.fields.get("meta")
        meta = {
            **(given if isinstance(given, dict) else {}),
            "uncertainty": self.uncertainty(measure, per_token),
            "entropy": round(self.entropy, _DIGITS),
            "confidence": round(self.confidence, _DIGITS),
            "margin": round(self.margin, _DIGITS),
        }
        return {**self.fields, "text": self.text, "spans": self.spans, "meta": meta}


def read_texts(path: Path, text_field: str = "text") -> Iterator[tuple[str, dict[str, Any]]]:
    """Read texts and what else their lines hold.

    path (Path): A file with a text on each line, or JSONL. Empty lines are left out.
    text_field (str): The field of a JSON line that holds the text.
    YIELDS (tuple[str, dict]): The text and the other fields.
    RAISES (ValueError): CRF473 on a line that holds no text.
    """
    is_json = path.suffix.lower() in (".jsonl", ".ndjson")
    with path.open("rb") as file:
        for number, data in enumerate(file, 1):
            try:
                line = data.decode("utf-8-sig" if number == 1 else "utf8").strip("\r\n")
                if not line.strip():
                    continue
                fields = json.loads(line) if is_json else {text_field: line}
            except ValueError as error:
                expected = "a JSON object" if is_json else "text in UTF-8"
                raise ValueError(
                    Errors.CRF473.format(path=path, line=number, found=error, expected=expected)
                ) from error
            text = fields.pop(text_field, None) if isinstance(fields, dict) else None
            if not isinstance(text, str):
                expected = f"a JSON object with a text in the field '{text_field}'"
                raise ValueError(Errors.CRF473.format(path=path, line=number, found="no text here", expected=expected))
            if text.strip():
                yield text, fields


def score_texts(
    nlp: Language,
    texts: Iterable[tuple[str, dict[str, Any]]],
    *,
    component: str | None = None,
    batch_size: int = 128,
) -> Iterator[RankedText]:
    """Say how unsure a model is of each text.

    nlp (Language): The pipeline.
    texts (Iterable[tuple[str, dict]]): The texts, and what else is to be kept of them.
    component (str | None): The name of the recognizer; None for the only one there is.
    batch_size (int): Number of texts at a time.
    YIELDS (RankedText): The texts, in order.
    """
    name, pipe = find_recognizer(nlp, component)
    before = nlp.pipe_names[: nlp.pipe_names.index(name)]
    for group in minibatch(texts, size=batch_size):
        items = list(group)
        # Nothing is yielded in here: whoever reads may use the pipeline in between.
        with nlp.select_pipes(enable=before), nlp.memory_zone():
            docs = list(nlp.pipe(text for text, _ in items))
            ranked = _score_docs(pipe, docs, items)
        yield from ranked


def _score_docs(pipe: NERCRF, docs: list[Doc], items: Sequence[tuple[str, dict[str, Any]]]) -> list[RankedText]:
    batch = pipe.read_batch(docs, keep_ents=not pipe.cfg["overwrite"])
    log_probs, paths = n_best_paths(batch.tempered, 2)
    entropy = entropies(batch.tempered).tolist()
    found = batch.score(batch.read_entities(paths[0]))
    places = split_by_doc(found.entities, batch.columns.lengths)
    ranked = []
    for i, ((text, fields), doc, (offset, place)) in enumerate(zip(items, docs, places, strict=True)):
        best, second = numpy.exp(log_probs[i]).tolist()
        spans = [
            {"start": ent.start, "end": ent.end, "label": ent.label, "prob": round(ent.prob or 0.0, _DIGITS)}
            for ent in read_predicted(doc, found, offset, place, pipe.labels)
        ]
        ranked.append(RankedText(text, fields, entropy[i], best, best - second, len(doc), spans))
    return ranked


def write_ranking(
    ranked: Iterable[RankedText],
    path: Path,
    *,
    measure: str = ENTROPY,
    per_token: bool = False,
    limit: int | None = None,
) -> int:
    """Write texts to a file, the most uncertain first, equal ones in their order.

    Memory holds a figure and a position for each text; the lines wait in a temporary file.

    ranked (Iterable[RankedText]): The texts.
    path (Path): The JSONL file to write. It appears whole or not at all.
    measure (str): What to rank by.
    per_token (bool): Divide the entropy by the number of tokens.
    limit (int | None): How many texts to write; None for all.
    RETURNS (int): Number of texts written; without any there is no file.
    """
    keys: list[float] = []
    places: list[int] = []
    with TemporaryFile() as lines:
        for text in ranked:
            keys.append(-text.uncertainty(measure, per_token))
            places.append(lines.tell())
            line = json.dumps(text.to_json(measure, per_token), ensure_ascii=False)
            lines.write(line.encode("utf8", "surrogatepass") + b"\n")
        if not keys:
            return 0
        order = numpy.argsort(numpy.array(keys), kind="stable")[:limit]
        partial = path.with_name(f"{path.name}.part")
        with partial.open("wb") as output:
            for index in order.tolist():
                lines.seek(places[index])
                output.write(lines.readline())
        partial.replace(path)
    return len(order)
