"""Compare the CRF with pytorch-crf: loss with gradient, decoding and peak memory, as ratios on one thread.

Both sides run in one process, by turns, on the same float32 potentials in time-major layout, with lengths between half
and all of the longest. Each ratio is that of the medians, pytorch-crf's time over ours. On one thread it is the time of
the processor that counts, so that other programs disturb less.

loss: negative log likelihood with its gradient to emissions and parameters; forward and backward for pytorch-crf.
decode: best paths as a list of lists for pytorch-crf, and for us as the same list of lists, conversion included.
memory: growth of the peak resident memory of a fresh process by one loss with gradient.
"""

import json
import time
from collections.abc import Callable
from math import prod
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import torch
import typer
import wasabi
from measure import peak_memory
from torchcrf import CRF

from spacy_bilstm_crf.crf import Potentials, nll_and_gradient, path_score, viterbi

DOCS = (8, 32, 128)
TOKENS = (20, 50, 200)
TAGS = (9, 17, 37, 73)
LARGEST = (128, 200, 73)
# A run lasts at least this long, in seconds: shorter calls are repeated.
RUN_TIME = 0.01


class Case:
    """One batch, for both sides."""

    def __init__(self, n_docs: int, n_tokens: int, n_tags: int) -> None:
        generator = torch.Generator().manual_seed(n_docs + n_tokens + n_tags)
        self.lengths = torch.randint(n_tokens // 2, n_tokens + 1, (n_docs,), generator=generator)
        self.lengths[0] = n_tokens
        self.mask = torch.arange(n_tokens).unsqueeze(1) < self.lengths
        self.emissions = (3 * torch.randn(n_tokens, n_docs, n_tags, generator=generator)).requires_grad_()
        self.tags = torch.randint(n_tags, (n_tokens, n_docs), generator=generator)
        self.crf = CRF(n_tags)
        for parameter in self.crf.parameters():
            torch.nn.init.normal_(parameter, generator=generator)
        crf = self.crf
        self.potentials = Potentials(
            self.emissions.detach().transpose(0, 1),
            self.lengths,
            crf.transitions.detach(),
            crf.start_transitions.detach(),
            crf.end_transitions.detach(),
        )

    def their_loss(self) -> tuple[torch.Tensor, torch.Tensor]:
        self.emissions.grad = None
        self.crf.zero_grad()
        loss = -self.crf(self.emissions, self.tags, self.mask, reduction="sum")
        loss.backward()
        assert self.emissions.grad is not None
        return loss.detach(), self.emissions.grad

    def our_loss(self) -> tuple[torch.Tensor, torch.Tensor]:
        loss, gradient = nll_and_gradient(self.potentials, self.tags.t())
        return loss.sum(), gradient.emissions.transpose(0, 1)

    def their_decode(self) -> list[list[int]]:
        with torch.no_grad():
            return self.crf.decode(self.emissions, self.mask)

    def our_decode(self) -> list[list[int]]:
        _, tags = viterbi(self.potentials)
        return [row[:length] for row, length in zip(tags.tolist(), self.lengths.tolist(), strict=True)]

    def check(self) -> None:
        for theirs, ours in zip(self.their_loss(), self.our_loss(), strict=True):
            torch.testing.assert_close(theirs, ours, rtol=1e-4, atol=1e-3, check_dtype=False)
        for i, (theirs, ours) in enumerate(zip(self.their_decode(), self.our_decode(), strict=True)):
            # Equal paths, or paths of equal score up to the rounding of float32.
            assert theirs == ours or abs(self.score(i, theirs) - self.score(i, ours)) < 1e-3

    def score(self, doc: int, path: list[int]) -> float:
        one = self.potentials._replace(
            emissions=self.potentials.emissions[doc : doc + 1, : len(path)], lengths=torch.tensor([len(path)])
        )
        return float(path_score(one, torch.tensor([path])))


def seconds(function: Callable[[], Any], repeats: int) -> float:
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    for _ in range(repeats):
        function()
    return (clock() - start) / repeats


def compare(theirs: Callable[[], Any], ours: Callable[[], Any], runs: int) -> float:
    repeats = [max(1, round(RUN_TIME / max(seconds(function, 1), 1e-6))) for function in (theirs, ours)]
    times = [(seconds(theirs, repeats[0]), seconds(ours, repeats[1])) for _ in range(runs)]
    return median(time[0] for time in times) / median(time[1] for time in times)


def peak_growth(side: str) -> float:
    """Peak memory in MiB of one loss with gradient, to be called in a fresh process."""
    torch.set_num_threads(1)
    getattr(Case(2, 3, 4), side)()
    case = Case(*LARGEST)
    before = peak_memory()
    getattr(case, side)()
    return peak_memory() - before


def geometric_mean(ratios: list[float]) -> float:
    return prod(ratios) ** (1 / len(ratios))


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name in ("loss", "decode"):
        ratios = [row[name] for row in rows]
        result[name] = {"geometric_mean": geometric_mean(ratios), "lowest": min(ratios)}
    return result


def main(
    output: Path = typer.Option(Path("bench/crf.json"), help="JSON file for the results"),
    runs: int = typer.Option(7, min=1, help="Runs of which the median counts"),
    threads: int = typer.Option(1, min=1, help="Threads of torch"),
    docs: list[int] = typer.Option(list(DOCS), help="Documents in a batch"),
    tokens: list[int] = typer.Option(list(TOKENS), help="Tokens of the longest document"),
    tags: list[int] = typer.Option(list(TAGS), help="Number of tags"),
    memory: bool = typer.Option(True, help="Measure peak memory too"),
) -> None:
    torch.set_num_threads(threads)
    rows: list[dict[str, Any]] = []
    for n_docs, n_tokens, n_tags in ((d, t, k) for d in docs for t in tokens for k in tags):
        case = Case(n_docs, n_tokens, n_tags)
        case.check()
        loss = compare(case.their_loss, case.our_loss, runs)
        decode = compare(case.their_decode, case.our_decode, runs)
        rows.append({"docs": n_docs, "tokens": n_tokens, "tags": n_tags, "loss": loss, "decode": decode})
    table = [(row["docs"], row["tokens"], row["tags"], f"{row['loss']:.1f}", f"{row['decode']:.1f}") for row in rows]
    header = ("docs", "tokens", "tags", "loss", "decode")
    wasabi.msg.table(table, header=header, divider=True, aligns=("r",) * 5)
    results = {"threads": threads, "runs": runs, "torch": torch.__version__, "rows": rows, **summary(rows)}
    for name in ("loss", "decode"):
        wasabi.msg.info(
            f"{name}: geometric mean {results[name]['geometric_mean']:.2f}, lowest {results[name]['lowest']:.2f}"
        )
    if memory:
        with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            theirs, ours = pool.map(peak_growth, ["their_loss", "our_loss"], chunksize=1)
        results["memory"] = {"theirs_mib": theirs, "ours_mib": ours, "ratio": theirs / ours}
        wasabi.msg.info(f"memory: {theirs:.0f} MiB against {ours:.0f} MiB, ratio {theirs / ours:.1f}")
    output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf8")


if __name__ == "__main__":
    typer.run(main)
