"""What can be done to a file: the operations of a disk job."""

from __future__ import annotations

import msgspec


class Replace(msgspec.Struct, frozen=True, gc=False):
    """Put `data` in a file's place, whole or not at all.

    `durable`: it survives a power cut once the job is done. `folders`: a missing parent folder is made (0700).
    """

    path: str
    data: bytes
    durable: bool
    folders: bool = False


class Append(msgspec.Struct, frozen=True, gc=False):
    """Add `data` to a file's end, making the file when missing; what an error left half-written is cut off again.

    `keep_open` saves opening it each time and is for files that nobody else moves or removes.
    """

    path: str
    data: bytes
    durable: bool = False
    folders: bool = False
    keep_open: bool = False


class Remove(msgspec.Struct, frozen=True, gc=False):
    """Remove a file; one that is not there is no error."""

    path: str
    durable: bool = False


Op = Replace | Append | Remove
