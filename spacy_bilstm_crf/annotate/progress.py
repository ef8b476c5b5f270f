"""How far a run is: documents a second and time left."""

import sys
from types import TracebackType

import tqdm

_FORMAT = "{percentage:3.0f}%|{bar}| {desc} [{elapsed}, {remaining} left]"
# In a log file, a line now and then.
_SECONDS_BETWEEN_LINES = 60.0


class Progress:
    """A progress bar over bytes of input that counts documents."""

    def __init__(self, n_bytes: int, *, n_bytes_done: int = 0, is_shown: bool = True) -> None:
        """Show the bar.

        n_bytes (int): Size of the input.
        n_bytes_done (int): How much of it was done before.
        is_shown (bool): Whether to show it at all.
        """
        self.n_docs = 0
        self.bar = tqdm.tqdm(
            total=max(n_bytes, 1),
            initial=min(n_bytes_done, n_bytes),
            bar_format=_FORMAT,
            disable=not is_shown,
            mininterval=0.2 if sys.stderr.isatty() else _SECONDS_BETWEEN_LINES,
        )
        self._describe()

    def add(self, n_docs: int, n_bytes: int) -> None:
        """Count what was done.

        n_docs (int): Number of documents. Negative if they have to be done again.
        n_bytes (int): Their size.
        """
        self.n_docs += n_docs
        self._describe()
        self.bar.update(n_bytes)

    def _describe(self) -> None:
        seconds = self.bar.format_dict["elapsed"]
        rate = f", {self.n_docs / seconds:,.0f} docs/s" if seconds > 0 and self.n_docs else ""
        self.bar.set_description_str(f"{self.n_docs:,} docs{rate}", refresh=False)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.bar.close()
