"""A folder on disk."""

import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO


def temporary_name(name: str) -> str:
    """Name a file while it is written.

    name (str): The name that it will have.
    RETURNS (str): A name in the same folder that no other process uses.
    """
    folder, _, file = name.rpartition("/")
    hidden = f".{file}.{uuid.uuid4().hex[:12]}.tmp"
    return f"{folder}/{hidden}" if folder else hidden


def is_temporary(name: str) -> bool:
    """Tell files that are being written.

    name (str): A file's name.
    RETURNS (bool): Whether `temporary_name` made it.
    """
    file = name.rpartition("/")[2]
    return file.startswith(".") and file.endswith(".tmp")


class LocalFolder:
    """A folder on this machine or on a shared disk."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = root

    def names(self, subfolder: str) -> list[str]:
        """List the files of a subfolder.

        subfolder (str): The subfolder.
        RETURNS (list[str]): Their names in it.
        """
        return [name for name in self._all_names(subfolder) if not is_temporary(name)]

    def read(self, name: str) -> bytes:
        """Read a file.

        name (str): Its name.
        RETURNS (bytes): Its content.
        """
        return (self.root / name).read_bytes()

    def create(self, name: str) -> "LocalPendingFile":
        """Begin a file.

        name (str): Its name.
        RETURNS (LocalPendingFile): The file to be.
        """
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return LocalPendingFile(path, self.root / temporary_name(name))

    def remove(self, name: str) -> None:
        """Remove a file, if it is there.

        name (str): Its name.
        """
        (self.root / name).unlink(missing_ok=True)

    def clean(self, subfolder: str) -> None:
        """Remove what killed processes have begun.

        subfolder (str): Where.
        """
        for name in self._all_names(subfolder):
            if is_temporary(name):
                self.remove(f"{subfolder}/{name}" if subfolder else name)

    def _all_names(self, subfolder: str) -> list[str]:
        path = self.root / subfolder
        return sorted(entry.name for entry in os.scandir(path) if entry.is_file()) if path.is_dir() else []


class LocalPendingFile:
    """A file beside the place that it will have, so that a rename is enough."""

    def __init__(self, path: Path, temporary: Path) -> None:
        """Begin the file.

        path (Path): The place that it will have.
        temporary (Path): Where it is until then.
        """
        self.path = path
        self.temporary = temporary
        self.stream: BinaryIO = open(temporary, "wb")  # noqa: SIM115 (closed by finish or discard)

    def finish(self) -> None:
        """Make sure that the content is on disk, and close it."""
        if not self.stream.closed:
            self.stream.flush()
            os.fsync(self.stream.fileno())
            self.stream.close()

    def commit(self) -> None:
        """Finish it and give it its name."""
        self.finish()
        os.replace(self.temporary, self.path)
        if os.name == "posix":  # the name is on disk when its folder is
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def discard(self) -> None:
        """Remove it."""
        with suppress(OSError):  # on a full disk what is still in the buffer fails again
            self.stream.close()
        self.temporary.unlink(missing_ok=True)
