"""The local engine: worker processes on this machine."""

import json
import os
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import IO, Any, cast

from ..errors import Errors
from .job import Job, Slice

# A document that kills its worker is found by annotating one by one, at the price of loading the model again.
_MAX_DEADLY_DOCS = 10
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

Event = dict[str, Any]


@dataclass
class Order:
    """A slice that is to be done.

    part (Slice): The slice.
    is_careful (bool): One document at a time, because a worker died.
    skip (dict): Positions of documents that killed their worker, and how.
    last (int | None): Position of the document that is being annotated, as far as known.
    n_docs (int): Number of documents that were reported as done.
    """

    part: Slice
    is_careful: bool = False
    skip: dict[int, str] = field(default_factory=dict)
    last: int | None = None
    n_docs: int = 0


class Worker:
    """The parent's side of a worker process."""

    def __init__(self, job: Job, gpu_id: int, events: "queue.SimpleQueue[tuple[Worker, Event | None]]") -> None:
        """Start the process.

        job (Job): The options.
        gpu_id (int): The GPU. -1 for none.
        events (SimpleQueue): Where what it tells goes; None when it has ended.
        """
        # The number of workers is what makes it fast, and one thread each leaves the results the same for any number.
        environment = {**dict.fromkeys(_THREADS, "1"), **os.environ}
        command = [sys.executable, "-m", f"{__package__}.worker"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.order: Order | None = None
        self.is_ready = False
        self._send(job=job.to_dict(), gpu_id=gpu_id)
        threading.Thread(target=self._listen, args=(events,), daemon=True).start()

    def give(self, order: Order) -> None:
        """Have a slice done.

        order (Order): The slice.
        """
        self.order = order
        self._send(slice=asdict(order.part), is_careful=order.is_careful, skip=order.skip)

    def dismiss(self) -> None:
        """Let the process end: it does when nothing can come any more."""
        with suppress(BrokenPipeError):
            cast(IO[bytes], self.process.stdin).close()

    def kill(self) -> None:
        """End the process, whatever it does."""
        self.process.kill()
        self.process.wait()
        self.dismiss()

    def describe_end(self) -> str:
        """RETURNS (str): How the process has ended, when it has."""
        self.dismiss()
        code = self.process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def _send(self, **message: Any) -> None:
        stdin = cast(IO[bytes], self.process.stdin)
        with suppress(BrokenPipeError):  # it has died, which is reported when its output ends
            stdin.write(json.dumps(message).encode("ascii") + b"\n")
            stdin.flush()

    def _listen(self, events: "queue.SimpleQueue[tuple[Worker, Event | None]]") -> None:
        with cast(IO[bytes], self.process.stdout) as stdout:
            for line in stdout:
                events.put((self, json.loads(line)))
        events.put((self, None))


class LocalEngine:
    """Gives slices to workers, one at a time each."""

    def __init__(self, job: Job, *, n_process: int, gpu_id: int, on_event: Callable[[Order, Event], None]) -> None:
        """Make the engine.

        job (Job): The options.
        n_process (int): Number of workers.
        gpu_id (int): The GPU. -1 for none.
        on_event (Callable): Told what workers do, of which slice: "progress" with "n_docs", "done" with "counts".
        """
        self.job = job
        self.n_process = n_process
        self.gpu_id = gpu_id
        self.on_event = on_event
        self.events: queue.SimpleQueue[tuple[Worker, Event | None]] = queue.SimpleQueue()
        self.workers: set[Worker] = set()
        self.orders: Iterator[Order] = iter(())
        self.again: deque[Order] = deque()

    def run(self, parts: Iterator[Slice]) -> None:
        """Have all slices done.

        parts (Iterator[Slice]): The slices, which are asked for as workers become free.
        RAISES (ValueError): If a worker cannot go on, with the code that it told; CRF433 if workers keep dying.
        """
        self.orders = (Order(part) for part in parts)
        self.again.extend(islice(self.orders, self.n_process))
        try:
            for _ in range(len(self.again)):
                self.workers.add(Worker(self.job, self.gpu_id, self.events))
            while self.workers:
                worker, event = self.events.get()
                if event is None:
                    self._bury(worker)
                else:
                    self._handle(worker, event)
        finally:
            for worker in self.workers:
                worker.kill()

    def _handle(self, worker: Worker, event: Event) -> None:
        kind, order = event["event"], worker.order
        if kind == "fatal":
            reason = event["reason"]
            is_plain = not worker.is_ready and reason.startswith("[CRF")
            raise ValueError(reason if is_plain else Errors.CRF434.format(error=reason))
        if order is not None:
            if kind == "document":
                order.last = event["i"]
            else:
                order.n_docs += event.get("n_docs", 0)
                self.on_event(order, event)
        if kind in ("ready", "done"):
            worker.is_ready, worker.order = True, None
            following = self.again.popleft() if self.again else next(self.orders, None)
            if following is None:
                worker.dismiss()
            else:
                worker.give(following)

    def _bury(self, worker: Worker) -> None:
        self.workers.remove(worker)
        order, end = worker.order, worker.describe_end()
        if not worker.is_ready:
            raise ValueError(Errors.CRF432.format(model=self.job.model, error=f"the process ended with {end}"))
        if order is None:
            return
        self.on_event(order, {"event": "progress", "n_docs": -order.n_docs})
        skip = dict(order.skip)
        if order.is_careful and order.last is not None:
            skip[order.last] = Errors.CRF433.format(end=end)
        if len(skip) > _MAX_DEADLY_DOCS or (order.is_careful and order.last is None):
            raise ValueError(Errors.CRF440.format(part=order.part.name, path=order.part.path, end=end))
        self.again.append(Order(order.part, is_careful=True, skip=skip))
        self.workers.add(Worker(self.job, self.gpu_id, self.events))
