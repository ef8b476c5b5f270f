"""A folder by URL."""

from contextlib import suppress
from typing import Any, BinaryIO, cast

from .extras import require
from .inputs import get_file_system
from .local_folder import is_temporary, temporary_name


class ArrowFolder:
    """A folder by URL, on any file system that Arrow knows."""

    def __init__(self, url: str) -> None:
        """Open the folder, or make it.

        url (str): Its URL, such as "s3://bucket/folder".
        """
        self.file_system, self.root = get_file_system(url)
        self.fs = require("pyarrow.fs", "annotate", f"Writing {url}")
        self.made: set[str] = set()
        self._make("")

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
        with self.file_system.open_input_stream(self._path(name)) as stream:
            return cast(bytes, stream.read())

    def create(self, name: str) -> "ArrowPendingFile":
        """Begin a file.

        name (str): Its name.
        RETURNS (ArrowPendingFile): The file to be.
        """
        self._make(name.rpartition("/")[0])
        return ArrowPendingFile(self.file_system, self._path(name), self._path(temporary_name(name)))

    def remove(self, name: str) -> None:
        """Remove a file, if it is there.

        name (str): Its name.
        """
        with suppress(FileNotFoundError):
            self.file_system.delete_file(self._path(name))

    def clean(self, subfolder: str) -> None:
        """Remove what killed processes have begun.

        subfolder (str): Where.
        """
        for name in self._all_names(subfolder):
            if is_temporary(name):
                self.remove(f"{subfolder}/{name}" if subfolder else name)

    def _path(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/{name}".rstrip("/")

    def _make(self, subfolder: str) -> None:
        if subfolder not in self.made:
            self.file_system.create_dir(self._path(subfolder), recursive=True)
            self.made.add(subfolder)

    def _all_names(self, subfolder: str) -> list[str]:
        selector = self.fs.FileSelector(self._path(subfolder), allow_not_found=True)
        entries = self.file_system.get_file_info(selector)
        return sorted(entry.base_name for entry in entries if entry.type == self.fs.FileType.File)


class ArrowPendingFile:
    """A file under another name; object stores show it when it is closed, and move it as a whole."""

    def __init__(self, file_system: Any, path: str, temporary: str) -> None:
        """Begin the file.

        file_system (pyarrow.fs.FileSystem): The file system.
        path (str): The place that it will have.
        temporary (str): Where it is until then.
        """
        self.file_system = file_system
        self.path = path
        self.temporary = temporary
        self.is_there = True
        self.stream: BinaryIO = cast(BinaryIO, file_system.open_output_stream(temporary))

    def finish(self) -> None:
        """Make sure that the content is stored, and close it."""
        self.stream.close()

    def commit(self) -> None:
        """Finish it and give it its name."""
        self.finish()
        self.file_system.move(self.temporary, self.path)
        self.is_there = False

    def discard(self) -> None:
        """Remove it."""
        with suppress(OSError):
            self.stream.close()
        if self.is_there:
            self.is_there = False
            with suppress(FileNotFoundError):
                self.file_system.delete_file(self.temporary)
