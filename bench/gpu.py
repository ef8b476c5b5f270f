"""The CRF and the network on a GPU against the same code on the CPU, with a check that both give the same.

Runs on a machine that has torch and this package alone; says so where there is no GPU. What needs spaCy and CuPy, the
whole pipe, is left out where they are absent.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

from spacy_bilstm_crf.crf import Gradient, Potentials, nll_and_gradient, viterbi
from spacy_bilstm_crf.network import BiLSTMCRF

N_DOCS, N_TOKENS, N_TAGS, WIDTH = 256, 40, 37, 64
RUNS = 9
OUTPUT = Path(__file__).with_suffix(".json")


def seconds(function: Callable[[], Any], device: str) -> float:
    """Median time of a call, the device's queue emptied before and after."""
    times = []
    for _ in range(RUNS + 2):
        synchronize(device)
        start = time.perf_counter()
        function()
        synchronize(device)
        times.append(time.perf_counter() - start)
    return median(times[2:])


def synchronize(device: str) -> None:
    """Wait for the GPU, if it is one."""
    if device == "cuda":
        torch.cuda.synchronize()


def make_potentials(device: str) -> Potentials:
    """The same scores on each device."""
    generator = torch.Generator().manual_seed(0)
    emissions = 3 * torch.randn(N_TOKENS, N_DOCS, N_TAGS, generator=generator)
    lengths = torch.randint(N_TOKENS // 2, N_TOKENS + 1, (N_DOCS,), generator=generator)
    moves = [torch.randn(*shape, generator=generator) for shape in ((N_TAGS, N_TAGS), (N_TAGS,), (N_TAGS,))]
    return Potentials(emissions.to(device).transpose(0, 1), lengths.to(device), *(move.to(device) for move in moves))


def run_crf(device: str) -> tuple[dict[str, float], list[torch.Tensor]]:
    """Time loss with gradient and decoding."""
    potentials = make_potentials(device)
    tags = torch.arange(N_DOCS * N_TOKENS, device=device).view(N_DOCS, N_TOKENS) % N_TAGS
    times = {
        "loss": seconds(lambda: nll_and_gradient(potentials, tags), device),
        "viterbi": seconds(lambda: viterbi(potentials), device),
    }
    loss, gradient = nll_and_gradient(potentials, tags)
    return times, [tensor.cpu() for tensor in (loss, *Gradient(*gradient), viterbi(potentials)[1])]


def run_network(device: str, *, mixed_precision: bool = False) -> tuple[dict[str, float], list[torch.Tensor]]:
    """Time the BiLSTM forward, and forward with backward."""
    torch.manual_seed(0)
    network = BiLSTMCRF(WIDTH, N_TAGS, mixed_precision=mixed_precision).to(device)
    lengths = torch.randint(N_TOKENS // 2, N_TOKENS + 1, (N_DOCS,))
    X = torch.randn(int(lengths.sum()), WIDTH).to(device)

    def train() -> None:
        emissions, *_ = network(X, lengths, is_train=True)
        emissions.sum().backward()

    with torch.no_grad():
        forward = seconds(lambda: network(X, lengths), device)
        emissions = network(X, lengths)[0].cpu()
    return {"forward": forward, "forward and backward": seconds(train, device)}, [emissions]


def compare(name: str, run: Callable[[str], tuple[dict[str, float], list[torch.Tensor]]]) -> dict[str, Any]:
    """Run on both devices; check that they agree and give the ratios of the times."""
    (cpu, expected), (gpu, found) = run("cpu"), run("cuda")
    for left, right in zip(expected, found, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-3, atol=1e-3)
    return {f"{name}, {key}": {"cpu_ms": 1e3 * cpu[key], "gpu_ms": 1e3 * gpu[key]} for key in cpu}


def run_pipe() -> dict[str, Any] | str:
    """Time the whole pipe on the GPU, and load its model on the CPU."""
    try:
        import cupy  # noqa: F401
        import spacy
    except ImportError as error:
        return f"left out: {error}"
    from pipe import FOUR, System, read_words

    sentences = read_words([Path(__file__).parents[1] / "assets" / "en" / "train.iob"])
    spacy.require_gpu()
    system = System("ner_crf", FOUR)
    texts = [" ".join(words) for words in sentences]
    on_gpu = [[(ent.start, ent.end, ent.label_) for ent in doc.ents] for doc in system.nlp.pipe(texts)]
    speed = system.predict(sentences, 1000)
    data = system.nlp.to_bytes()
    spacy.require_cpu()
    nlp = spacy.blank("en")
    nlp.add_pipe("ner_crf")
    nlp.from_bytes(data)
    on_cpu = [[(ent.start, ent.end, ent.label_) for ent in doc.ents] for doc in nlp.pipe(texts)]
    return {"words_per_second": speed, "same_entities_on_cpu": on_gpu == on_cpu}


def main() -> None:
    """Print the times and write them as JSON."""
    if not torch.cuda.is_available():
        print("This machine has no GPU that torch can use: nothing to measure.")
        return
    results: dict[str, Any] = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name()}
    results.update(compare("CRF", run_crf))
    results.update(compare("BiLSTM", run_network))
    mixed, _ = run_network("cuda", mixed_precision=True)
    results["BiLSTM on the GPU in bfloat16, ms"] = {key: 1e3 * value for key, value in mixed.items()}
    results["pipe"] = run_pipe()
    print(json.dumps(results, indent=2))
    OUTPUT.write_text(json.dumps(results, indent=2) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
