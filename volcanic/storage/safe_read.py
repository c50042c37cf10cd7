"""Read a file that people edit, without trusting that it is one: no FIFO, device or huge file can hold up the reader.

Symbolic links are followed. Whatever is not a regular file is refused at once.
"""

from __future__ import annotations

import enum
import errno
import os
import stat
from typing import final

import attrs

SMALL_FILE_BYTES = 4 * 1024 * 1024
"""The longest configuration file that is read."""

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Reason(enum.Enum):
    """Why a file was not read."""

    MISSING = "is not there"
    NOT_A_FILE = "is not a regular file"
    TOO_LARGE = "is too large"
    DENIED = "cannot be read: permission denied"
    FAILED = "cannot be read"
    SHORT = "cannot be read now"
    """For want of descriptors or memory, or because the disk failed: it says nothing about the file."""


@final
@attrs.frozen(slots=True)
class Unreadable:
    """A file that was not read, and why; `str()` gives words that fit after the file's name."""

    reason: Reason
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.reason.value}: {self.detail}" if self.detail else self.reason.value


@final
@attrs.frozen(slots=True)
class Stamp:
    """What tells one state of a file from another without reading it."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @staticmethod
    def of(status: os.stat_result) -> Stamp:
        """Take the stamp out of a stat result."""
        return Stamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


_REASONS = {
    errno.EMFILE: Reason.SHORT,
    errno.ENFILE: Reason.SHORT,
    errno.ENOMEM: Reason.SHORT,
    errno.EIO: Reason.SHORT,
    errno.ENOENT: Reason.MISSING,
    errno.ENOTDIR: Reason.MISSING,
    errno.EACCES: Reason.DENIED,
    errno.EPERM: Reason.DENIED,
    errno.EISDIR: Reason.NOT_A_FILE,
    errno.ENXIO: Reason.NOT_A_FILE,
    errno.ENODEV: Reason.NOT_A_FILE,
}


def _refusal(error: OSError) -> Unreadable:
    reason = _REASONS.get(error.errno or 0, Reason.FAILED)
    return Unreadable(reason, (error.strerror or "") if reason in {Reason.FAILED, Reason.SHORT} else "")


def stamp_of(path: str) -> Stamp | Unreadable:
    """Return the file's stamp as it is now; links are followed."""
    try:
        return Stamp.of(os.stat(path))  # noqa: PTH116
    except OSError as error:
        return _refusal(error)
    except ValueError:
        return Unreadable(Reason.MISSING)  # a NUL in the path


def read_stamped(path: str, limit: int = SMALL_FILE_BYTES) -> tuple[bytes | Unreadable, Stamp | None]:
    """Return the content of a regular file of at most `limit` bytes, and the stamp it had before it was read.

    Takes a bounded time: a FIFO, device, socket, directory or symlink loop is refused without waiting for anybody.
    """
    try:
        handle = os.open(path, _FLAGS)
    except OSError as error:
        return _refusal(error), None
    except ValueError:
        return Unreadable(Reason.MISSING), None
    try:
        status = os.fstat(handle)
        stamp = Stamp.of(status)
        if not stat.S_ISREG(status.st_mode):
            return Unreadable(Reason.NOT_A_FILE), stamp
        if status.st_size > limit:
            return Unreadable(Reason.TOO_LARGE, f"{status.st_size} bytes, at most {limit}"), stamp
        return _read_all(handle, status.st_size, limit), stamp
    except OSError as error:
        return _refusal(error), None
    finally:
        os.close(handle)


def read_file(path: str, limit: int = SMALL_FILE_BYTES) -> bytes | Unreadable:
    """Return the content of a regular file of at most `limit` bytes; see `read_stamped`."""
    return read_stamped(path, limit)[0]


def _read_all(handle: int, expected: int, limit: int) -> bytes | Unreadable:
    chunk = os.read(handle, expected + 1)
    if len(chunk) == expected:
        return chunk
    parts = [chunk]
    total = len(chunk)
    while chunk:  # it grows while it is read
        chunk = os.read(handle, 65536)
        total += len(chunk)
        if total > limit:
            return Unreadable(Reason.TOO_LARGE, f"over {limit} bytes")
        parts.append(chunk)
    return b"".join(parts)
