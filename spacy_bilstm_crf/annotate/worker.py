"""A worker process of the local engine: `python -m spacy_bilstm_crf.annotate.worker`.

It is told its work on standard input and tells what it does on standard output, a JSON object a line each. The parent
holds the other end of standard input: when that closes, for whatever reason, the worker ends at once. On Linux the
kernel ends it as well, even while it is in a call that lets no other thread of it run.
"""

import ctypes
import json
import os
import queue
import signal
import sys
import threading
from typing import Any, BinaryIO

from .job import Job, Slice
from .reading import describe_error

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Load the pipeline and annotate the slices that the parent sends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group, and the parent decides
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # What components print must not get between the events.
    events = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, orders), daemon=True).start()
    try:
        _work(orders, events)
    except Exception as error:
        text = str(error)
        _tell(events, event="fatal", reason=text if text.startswith("[CRF") else describe_error(error))
        sys.exit(1)


def _listen(stdin: BinaryIO, orders: "queue.SimpleQueue[dict[str, Any]]") -> None:
    for line in stdin:
        orders.put(json.loads(line))
    os._exit(0)


def _work(orders: "queue.SimpleQueue[dict[str, Any]]", events: BinaryIO) -> None:
    from .shards import Annotator

    order = orders.get()
    annotator = Annotator.load(Job.from_dict(order["job"]), gpu_id=order["gpu_id"])
    _tell(events, event="ready")
    while True:
        order = orders.get()
        receipt = annotator.annotate(
            Slice(**order["slice"]),
            on_progress=lambda n_docs: _tell(events, event="progress", n_docs=n_docs),
            on_document=(lambda i: _tell(events, event="document", i=i)) if order["is_careful"] else None,
            skip={int(i): reason for i, reason in order["skip"].items()},
        )
        _tell(events, event="done", counts=receipt.counts())


def _tell(events: BinaryIO, **event: Any) -> None:
    events.write(json.dumps(event).encode("ascii") + b"\n")


if __name__ == "__main__":
    main()
