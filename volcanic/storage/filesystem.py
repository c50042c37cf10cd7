"""The system calls that `Disk` makes, as a port: tests put a recording or failing one in their place."""

from __future__ import annotations

import os
from typing import Protocol, final

_TEMP = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE_MODE = 0o600
_FOLDER_MODE = 0o700


class FileSystem(Protocol):
    """What the disk thread asks of the system. Every call may raise `OSError`; every call runs off the event loop."""

    def create(self, path: str) -> int:
        """Open a new file for writing; it must not exist."""

    def open_append(self, path: str) -> int:
        """Open a file for appending, making it when missing; never wait for a FIFO's reader."""

    def open_folder(self, path: str) -> int:
        """Open a folder for `sync`."""

    def write(self, handle: int, data: bytes | memoryview) -> int:
        """Write and return how many bytes were taken."""

    def truncate(self, handle: int, size: int) -> None:
        """Cut an open file to `size` bytes."""

    def size(self, handle: int) -> int:
        """Return an open file's size."""

    def sync(self, handle: int) -> None:
        """Make an open file or folder durable; returning means that it is."""

    def close(self, handle: int) -> None:
        """Close."""

    def rename(self, source: str, target: str) -> None:
        """Put `source` in `target`'s place, atomically."""

    def remove(self, path: str) -> None:
        """Remove a file."""

    def make_folders(self, path: str) -> None:
        """Make a folder and what leads to it, for this user alone."""


@final
class OsFileSystem:
    """The real one."""

    write = staticmethod(os.write)
    truncate = staticmethod(os.ftruncate)
    sync = staticmethod(os.fsync)
    close = staticmethod(os.close)
    rename = staticmethod(os.rename)
    remove = staticmethod(os.unlink)

    @staticmethod
    def create(path: str) -> int:
        """See `FileSystem.create`."""
        return os.open(path, _TEMP, _FILE_MODE)

    @staticmethod
    def open_append(path: str) -> int:
        """See `FileSystem.open_append`."""
        return os.open(path, _APPEND, _FILE_MODE)

    @staticmethod
    def open_folder(path: str) -> int:
        """See `FileSystem.open_folder`."""
        return os.open(path, _FOLDER)

    @staticmethod
    def size(handle: int) -> int:
        """See `FileSystem.size`."""
        return os.fstat(handle).st_size

    @staticmethod
    def make_folders(path: str) -> None:
        """See `FileSystem.make_folders`; `os.makedirs` would give only the last folder its mode."""
        try:
            os.mkdir(path, _FOLDER_MODE)  # noqa: PTH102
        except FileExistsError:
            return
        except FileNotFoundError:
            parent = path.rpartition("/")[0]
            if not parent:
                raise
            OsFileSystem.make_folders(parent)
            os.mkdir(path, _FOLDER_MODE)  # noqa: PTH102
