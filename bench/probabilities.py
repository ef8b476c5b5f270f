"""How good the probabilities of entities are, and what they cost.

For a trained pipeline: the scaling fitted to dev (a temperature and a bias for each label), expected calibration error
(15 bins of equal size) on dev and test before and after, and the area under the ROC curve for telling right from wrong
entities, beside that of the product of the tokens' marginals. The cost is the time of nlp.pipe with the setting against
that without, on the same Docs, interleaved, the median over the runs.
"""

import time
from pathlib import Path
from statistics import median

import numpy
import spacy
import torch
import typer
import wasabi
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Corpus

from spacy_bilstm_crf.inference import marginals
from spacy_bilstm_crf.report.calibration import fit_scaling, measure_auroc, measure_reliability
from spacy_bilstm_crf.report.scored import (
    ScoredBatch,
    check_entities,
    find_recognizer,
    read_scored_docs,
    rescore,
    score_examples,
)
from spacy_bilstm_crf.scaling import Scaling

SETTINGS = {
    "none": {"prob_attr": None, "spans_key": None, "spans_threshold": None},
    "prob_attr": {"prob_attr": "prob", "spans_key": None, "spans_threshold": None},
    "spans_key": {"prob_attr": None, "spans_key": "sc", "spans_threshold": None},
    "spans_threshold": {"prob_attr": None, "spans_key": "sc", "spans_threshold": 0.05},
}


def score_corpus(nlp: Language, path: Path) -> list[ScoredBatch]:
    """Run a pipeline over a corpus."""
    return list(score_examples(nlp, Corpus(path)(nlp)))


def check(nlp: Language, batches: list[ScoredBatch]) -> tuple[numpy.ndarray, numpy.ndarray]:
    """List probabilities of entities and whether they are right."""
    _, pipe = find_recognizer(nlp)
    probabilities, is_right, _ = check_entities(
        doc for batch in batches for doc in read_scored_docs(batch, pipe.labels)
    )
    return probabilities, is_right


def multiply_marginals(batches: list[ScoredBatch]) -> numpy.ndarray:
    """Score entities by the product of the marginals of their tokens' tags."""
    scores = []
    for scored in batches:
        source = scored.batch.distribution
        found = marginals(source.potentials, source.allowed, source.possible_tags)
        best = found[numpy.arange(len(found)), scored.batch.best_paths()]
        spans = zip(scored.entities.starts.tolist(), scored.entities.ends.tolist(), strict=True)
        scores += [float(best[start:end].prod()) for start, end in spans]
    return numpy.array(scores)


def measure_quality(nlp: Language, dev: Path, test: Path) -> dict[str, float]:
    """Measure calibration and discrimination."""
    dev_batches, test_batches = score_corpus(nlp, dev), score_corpus(nlp, test)
    _, dev_right = check(nlp, dev_batches)
    labels = numpy.concatenate([scored.entities.labels for scored in dev_batches])
    n_labels = len(find_recognizer(nlp)[1].labels)
    fitted = fit_scaling(lambda at: rescore(dev_batches, Scaling(at)), labels, dev_right, n_labels)
    before, test_right = check(nlp, test_batches)
    after = rescore(test_batches, fitted.scaling)
    return {
        "entities": len(test_right),
        "precision": float(test_right.mean()),
        "temperature": fitted.scaling.temperature,
        "ece_dev_before": fitted.before.ece,
        "ece_dev_after": fitted.after.ece,
        "ece_test_before": measure_reliability(before, test_right).ece,
        "ece_test_after": measure_reliability(after, test_right).ece,
        "auroc_before": measure_auroc(before, test_right),
        "auroc_after": measure_auroc(after, test_right),
        "auroc_of_product": measure_auroc(multiply_marginals(test_batches), test_right),
    }


def measure_cost(nlp: Language, path: Path, n_runs: int) -> dict[str, float]:
    """Measure the time of each setting against none of them."""
    _, pipe = find_recognizer(nlp)
    golds = [example.reference for example in Corpus(path)(nlp)]
    times: dict[str, list[float]] = {name: [] for name in SETTINGS}
    for _ in range(n_runs + 1):
        for name, settings in SETTINGS.items():
            pipe.cfg.update(settings)
            docs = [Doc(nlp.vocab, words=[token.text for token in gold]) for gold in golds]
            start = time.process_time()
            for _ in nlp.pipe(docs):
                pass
            times[name].append(time.process_time() - start)
    # The first round warms up.
    return {
        name: median(took / base for took, base in zip(times[name][1:], times["none"][1:], strict=True))
        for name in SETTINGS
    }


def main(model: str, dev: Path, test: Path, n_runs: int = 9) -> None:
    """Measure a trained pipeline on dev and test files (.spacy)."""
    torch.set_num_threads(1)
    nlp = spacy.load(model)
    nlp.get_pipe(find_recognizer(nlp)[0]).cfg["prob_attr"] = None
    rows = [(name, f"{value:.4g}") for name, value in measure_quality(nlp, dev, test).items()]
    rows += [(f"time with {name}", f"{ratio:.3f}") for name, ratio in measure_cost(nlp, test, n_runs).items()]
    wasabi.msg.table(rows)


if __name__ == "__main__":
    from spacy_bilstm_crf.pipeline.extensions import register_extensions

    register_extensions()
    typer.run(main)
