"""What the root process and the launcher say to each other, and what a forked process is born with.

The pipe is a Unix stream socket pair with frames (`supervisors.frames`) of msgpack. Descriptors travel beside the first
byte of the frame that names their number.
"""

from __future__ import annotations

import array
import os
import socket
from collections import deque
from collections.abc import Iterable, Sequence

import attrs
import msgspec

DESCRIPTOR_LIMIT = 64
"""The most descriptors one fork request carries; the kernel's own limit is 253."""


class Fork(msgspec.Struct, tag="fork", forbid_unknown_fields=True):
    """Root to launcher: fork a worker that runs `role`. `id` names the child from here on (a pid may come again)."""

    id: int
    role: str
    name: str
    payload: bytes
    descriptors: int


class Kill(msgspec.Struct, tag="kill", forbid_unknown_fields=True):
    """Root to launcher: send a signal to child `id`, for platforms and moments without a pidfd."""

    id: int
    signal: int


class Forked(msgspec.Struct, tag="forked", forbid_unknown_fields=True):
    """Launcher to root: child `id` runs as `pid`; with `has_pidfd` one descriptor comes along."""

    id: int
    pid: int
    has_pidfd: bool


class ForkFailed(msgspec.Struct, tag="fork_failed", forbid_unknown_fields=True):
    """Launcher to root: there is no child `id`, because of `reason`."""

    id: int
    reason: str


class Exited(msgspec.Struct, tag="exited", forbid_unknown_fields=True):
    """Launcher to root: child `id` ended and is reaped; `status` is waitpid's."""

    id: int
    status: int


FromRoot = Fork | Kill
FromLauncher = Forked | ForkFailed | Exited


@attrs.frozen
class RootBoot:
    """What the root process is born with."""

    forks: socket.socket
    """The pipe to the launcher, for `ForkClient`, which owns and closes it."""
    launcher_pid: int


@attrs.frozen
class WorkerBoot:
    """What a worker process is born with, before `run_worker` unpacks it."""

    role: str
    name: str
    payload: bytes
    descriptors: tuple[int, ...]
    """Open in this process under these numbers, close-on-exec; owned by the worker."""


class Descriptors:
    """Descriptors that came beside a stream's bytes, in order, until the frame that names their number is whole."""

    SPACE = socket.CMSG_SPACE(DESCRIPTOR_LIMIT * array.array("i").itemsize)
    """Room to give `recvmsg` for them."""

    _LOST = -1

    def __init__(self) -> None:
        self._received: deque[int] = deque()

    def feed(self, ancillary: Iterable[tuple[int, int, bytes]], flags: int) -> None:
        """Take in what one `recvmsg` gave, close-on-exec from here on."""
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                found = array.array("i")
                found.frombytes(data[: len(data) - len(data) % found.itemsize])
                for fd in found:
                    os.set_inheritable(fd, False)
                self._received.extend(found)
        if flags & socket.MSG_CTRUNC:
            self._received.append(self._LOST)

    def take(self, count: int) -> tuple[int, ...] | None:
        """Return one frame's descriptors, now the caller's; None when the kernel could not deliver them all."""
        taken: list[int] = []
        while len(taken) < count and self._received:
            fd = self._received.popleft()
            if fd == self._LOST:
                break
            taken.append(fd)
        if len(taken) == count:
            return tuple(taken)
        for fd in taken:
            os.close(fd)
        return None

    def close(self) -> None:
        """Close what was never taken."""
        for fd in self._received:
            if fd != self._LOST:
                os.close(fd)
        self._received.clear()

    @staticmethod
    def rights(descriptors: Sequence[int]) -> list[tuple[int, int, array.array[int]]]:
        """Return the ancillary data that sends `descriptors`."""
        if not descriptors:
            return []
        return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
