"""The folder of the output, whose files are written whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from ..errors import Errors
from .paths import is_url

_LOCK = ".lock"


class PendingFile(Protocol):
    """A file that has its name only when it is whole.

    stream (BinaryIO): Where its content goes.
    """

    stream: BinaryIO

    def finish(self) -> None:
        """Make sure that the content is stored, and close it."""

    def commit(self) -> None:
        """Finish it and give it its name, in place of an earlier file of this name."""

    def discard(self) -> None:
        """Remove it. Does nothing after `commit`."""


class Folder(Protocol):
    """A folder. Names of files are relative to it and have slashes."""

    def names(self, subfolder: str) -> list[str]:
        """List the files of a subfolder, without those that are being written.

        subfolder (str): The subfolder. "" for the folder itself.
        RETURNS (list[str]): Their names in it, sorted. Empty if there is no such subfolder.
        """

    def read(self, name: str) -> bytes:
        """Read a file.

        name (str): Its name.
        RETURNS (bytes): Its content.
        """

    def create(self, name: str) -> PendingFile:
        """Begin a file. Subfolders are made.

        name (str): Its name.
        RETURNS (PendingFile): The file to be.
        """

    def remove(self, name: str) -> None:
        """Remove a file, if it is there.

        name (str): Its name.
        """

    def clean(self, subfolder: str) -> None:
        """Remove what killed processes have begun.

        subfolder (str): Where.
        """


def open_folder(path: str) -> Folder:
    """Make the output folder if it does not exist.

    path (str): Its path or URL.
    RETURNS (Folder): The folder.
    RAISES (ValueError): CRF422 if it cannot be written to.
    """
    from .arrow_folder import ArrowFolder
    from .local_folder import LocalFolder

    try:
        return ArrowFolder(path) if is_url(path) else LocalFolder(Path(path))
    except OSError as error:
        raise ValueError(Errors.CRF422.format(output=path, error=error)) from error


@contextmanager
def lock_folder(path: str) -> Iterator[None]:
    """Keep other runs out of a folder. Ends with the process, however that ends.

    path (str): The folder. URLs are not locked.
    YIELDS (None): Nothing.
    RAISES (ValueError): CRF422 if it cannot be written to, CRF425 if another run has it.
    """
    try:
        import fcntl
    except ImportError:  # there is no such lock on Windows
        yield
        return
    if is_url(path):
        yield
        return
    try:
        lock = open(Path(path) / _LOCK, "wb")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise ValueError(Errors.CRF422.format(output=path, error=error)) from error
    with lock as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(Errors.CRF425.format(output=path)) from error
        except OSError:  # some network file systems have no locks
            pass
        yield


def write_file(folder: Folder, name: str, content: bytes) -> None:
    """Write a file at once.

    folder (Folder): Where.
    name (str): Its name.
    content (bytes): Its content.
    """
    pending = folder.create(name)
    try:
        pending.stream.write(content)
        pending.commit()
    finally:
        pending.discard()
