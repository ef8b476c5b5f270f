"""The lattice of one sentence: what speaks for each tag and each move, and which paths lead through it."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy
from jinja2 import Environment, PackageLoader, StrictUndefined
from spacy.language import Language

from ..errors import Errors
from ..pipeline.ner_probabilities import ScoredPath, find_n_best
from ..probabilities import pair_marginals
from .scored import find_recognizer

_COLUMN, _ROW, _LEFT, _TOP = 118, 40, 90, 56
# What is less probable, and on no path that is shown, is left out of the picture.
_LEAST = 0.01


@dataclass(frozen=True)
class Explanation:
    """Why a sentence is tagged as it is.

    words (list[str]): Its tokens.
    tags (list[str]): All tags.
    emissions (ndarray): Score of each tag at each token, in nats.
        (n_tokens, n_tags) float32
    moves (ndarray): Score of moving from one tag to another, in nats; NaN where it is forbidden.
        (n_tags, n_tags) float32
    marginals (ndarray): Probability of each tag at each token.
        (n_tokens, n_tags) float64
    pairs (ndarray): Probability of each move into a token.
        (n_tokens, n_tags, n_tags) float64
    paths (list[ScoredPath]): The most probable paths, best first.
    temperature (float): By which scores are divided for probabilities.
    """

    words: list[str]
    tags: list[str]
    emissions: numpy.ndarray
    moves: numpy.ndarray
    marginals: numpy.ndarray
    pairs: numpy.ndarray
    paths: list[ScoredPath]
    temperature: float

    @property
    def tag_ids(self) -> list[list[int]]:
        """RETURNS (list[list[int]]): The tags of each path by their position."""
        return [[self.tags.index(tag) for tag in path.tags] for path in self.paths]


def explain(nlp: Language, text: str, *, component: str | None = None, n_paths: int = 4) -> Explanation:
    """Find out why a text is tagged as it is.

    nlp (Language): The pipeline.
    text (str): The text.
    component (str | None): The name of the recognizer; None for the only one there is.
    n_paths (int): How many paths to compare.
    RETURNS (Explanation): Scores, probabilities and paths.
    RAISES (ValueError): CRF475 if the text has no tokens.
    """
    name, pipe = find_recognizer(nlp, component)
    with nlp.select_pipes(enable=nlp.pipe_names[: nlp.pipe_names.index(name)]):
        doc = nlp(text)
    if not len(doc):
        raise ValueError(Errors.CRF475)
    batch = pipe.read_batch([doc], keep_ents=not pipe.cfg["overwrite"])
    scores = batch.distribution.potentials
    moves = numpy.array(_on_cpu(scores.transitions))
    if pipe.allowed_transitions is not None:
        moves[~pipe.allowed_transitions.transitions] = numpy.nan
    pairs = pair_marginals(batch.tempered)
    first = pipe.marginals([doc], keep_ents=not pipe.cfg["overwrite"])[0]
    paths = find_n_best([doc], batch, n_paths, pipe.tag_set)[0]
    emissions = numpy.array(_on_cpu(scores.emissions))
    words = [token.text for token in doc]
    return Explanation(words, pipe.tags, emissions, moves, first, pairs, paths, batch.scaling.temperature)


def _on_cpu(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else array


class Node(NamedTuple):
    """A tag at a token in the picture.

    x (int): Centre.
    y (int): Centre.
    prob (float): Its probability.
    score (str): Its emission.
    name (str): What it is, in words.
    """

    x: int
    y: int
    prob: float
    score: str
    name: str


class Edge(NamedTuple):
    """A move in the picture.

    x1 (int): From here.
    y1 (int): From here.
    x2 (int): To here.
    y2 (int): To here.
    prob (float): Its probability.
    score (str): Its transition score.
    paths (str): Classes of the paths that use it.
    """

    x1: int
    y1: int
    x2: int
    y2: int
    prob: float
    score: str
    paths: str


def write_lattice(explanation: Explanation, title: str, path: Path) -> None:
    """Draw the lattice on a page that needs no script and no network.

    explanation (Explanation): What it shows.
    title (str): Heading.
    path (Path): The HTML file.
    """
    shown = _shown_tags(explanation)
    rows = {tag: i for i, tag in enumerate(shown)}
    environment = Environment(
        loader=PackageLoader("spacy_bilstm_crf.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("lattice.html").render(
        title=title,
        text=" ".join(explanation.words),
        words=[(word, _LEFT + i * _COLUMN) for i, word in enumerate(explanation.words)],
        tags=[(explanation.tags[tag], _TOP + row * _ROW) for tag, row in rows.items()],
        nodes=_make_nodes(explanation, rows),
        edges=_make_edges(explanation, rows),
        paths=[(path.prob, [(ent.text, ent.label_) for ent in path.ents], path.tags) for path in explanation.paths],
        n_hidden=len(explanation.tags) - len(shown),
        temperature=explanation.temperature,
        width=_LEFT + len(explanation.words) * _COLUMN,
        height=_TOP + len(shown) * _ROW,
    )
    path.write_text(page, encoding="utf8")


def _format(score: float) -> str:
    return "✕" if math.isnan(score) else f"{round(score, 1) + 0.0:.1f}"


def _shown_tags(explanation: Explanation) -> list[int]:
    on_path = {tag for path in explanation.tag_ids for tag in path}
    likely = set(numpy.flatnonzero((explanation.marginals >= _LEAST).any(axis=0)).tolist())
    return sorted(on_path | likely)


def _make_nodes(explanation: Explanation, rows: dict[int, int]) -> list[Node]:
    nodes = []
    for token, word in enumerate(explanation.words):
        for tag, row in rows.items():
            prob = float(explanation.marginals[token, tag])
            score = _format(float(explanation.emissions[token, tag]))
            name = f"{word}: {explanation.tags[tag]}, probability {prob:.3f}, emission {score}"
            nodes.append(Node(_LEFT + token * _COLUMN, _TOP + row * _ROW, prob, score, name))
    return nodes


def _make_edges(explanation: Explanation, rows: dict[int, int]) -> list[Edge]:
    edges = []
    for token in range(1, len(explanation.words)):
        for before, first_row in rows.items():
            for tag, row in rows.items():
                used = [i for i, path in enumerate(explanation.tag_ids) if path[token - 1 : token + 1] == [before, tag]]
                prob = float(explanation.pairs[token, before, tag])
                if not used and prob < _LEAST:
                    continue
                score = float(explanation.moves[before, tag])
                edges.append(
                    Edge(
                        _LEFT + (token - 1) * _COLUMN,
                        _TOP + first_row * _ROW,
                        _LEFT + token * _COLUMN,
                        _TOP + row * _ROW,
                        prob,
                        _format(score),
                        " ".join(f"on-{i}" for i in used),
                    )
                )
    return edges
