"""Heartbeats: a worker's loop counts up in shared memory, root watches the count and ends a worker whose count stands.

Shared memory, because a worker that is blocked or stopped must not have to read or write a pipe, and because a stamp
costs the worker's loop nothing. The same page holds a label: what the worker took up last, for the reason in the log.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import trio

BEAT_SECONDS = 0.25
"""How often a worker counts, and how often root looks."""
SILENCE_SECONDS = 10.0
"""How long a count may stand, over time in which root's own loop was on time."""

_COUNT = 8
_LABEL = 64
_SIZE = mmap.PAGESIZE


class HeartbeatMemory:
    """Root's side of one worker's page: made by root, read by root, its descriptor sent to the worker."""

    def __init__(self, name: str) -> None:
        self.fd = _shared_file(name)
        os.ftruncate(self.fd, _SIZE)
        self._memory = mmap.mmap(self.fd, _SIZE)

    def count(self) -> int:
        """Return how often the worker's loop has come round."""
        return int.from_bytes(self._memory[:_COUNT], "little")

    def label(self) -> str:
        """Return what the worker said last that it took up; empty when it said nothing."""
        return self._memory[_COUNT : _COUNT + _LABEL].rstrip(b"\0").decode(errors="replace")

    def close(self) -> None:
        """Give the page back; the worker's mapping of it stays."""
        self._memory.close()
        os.close(self.fd)


class Pulse:
    """The worker's side: counts, and names what it does. Both are plain memory writes."""

    def __init__(self, fd: int) -> None:
        """Map the page behind `fd` and close `fd`."""
        self._memory = mmap.mmap(fd, _SIZE)
        os.close(fd)
        self._count = 0

    def beat(self) -> None:
        """Count once."""
        self._count += 1
        self._memory[:_COUNT] = self._count.to_bytes(_COUNT, "little")

    def label(self, text: str) -> None:
        """Name what is being done, in at most 64 bytes; the rest is cut."""
        self._memory[_COUNT : _COUNT + _LABEL] = text.encode(errors="replace")[:_LABEL].ljust(_LABEL, b"\0")

    async def run(self) -> None:
        """Count every `BEAT_SECONDS` until cancelled."""
        while True:
            self.beat()
            await trio.sleep(BEAT_SECONDS)


@attrs.define(eq=False)
class _Watched:
    memory: HeartbeatMemory
    on_silent: Callable[[str], None]
    count: int
    silence: float = 0.0


class HeartbeatMonitor:
    """Root's watch over every worker's count.

    Silence is summed over root's own ticks that came on time: a tick that came late (a busy machine, a suspended one, a
    blocked root) adds nothing, since the worker may have been held up by the same thing.
    """

    def __init__(self, silence_seconds: float = SILENCE_SECONDS, tick_seconds: float = BEAT_SECONDS) -> None:
        self._limit = silence_seconds
        self._tick = tick_seconds
        self._watched: list[_Watched] = []

    async def run(  # noqa: ASYNC114 - started by a supervisor or by the composition root
        self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Look every tick until cancelled."""
        task_status.started()
        before = trio.current_time()
        while True:
            await trio.sleep(self._tick)
            now = trio.current_time()
            elapsed, before = now - before, now
            self._look(elapsed if elapsed <= 2 * self._tick else 0.0)

    @contextlib.contextmanager
    def watch(self, memory: HeartbeatMemory, on_silent: Callable[[str], None]) -> Iterator[None]:
        """Watch one worker for the body's duration; `on_silent` is called at most once, with the reason to log."""
        watched = _Watched(memory, on_silent, memory.count())
        self._watched.append(watched)
        try:
            yield
        finally:
            with contextlib.suppress(ValueError):
                self._watched.remove(watched)

    def _look(self, elapsed: float) -> None:
        for watched in list(self._watched):
            count = watched.memory.count()
            if count != watched.count:
                watched.count = count
                watched.silence = 0.0
                continue
            watched.silence += elapsed
            if watched.silence >= self._limit:
                self._watched.remove(watched)
                label = watched.memory.label()
                last = f"the last thing it took up: {label}" if label else "it had taken up nothing"
                watched.on_silent(f"its loop stood still for {watched.silence:.1f} s; {last}")


def _shared_file(name: str) -> int:
    """Return a descriptor of nameless memory."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(f"heartbeat-{name}", os.MFD_CLOEXEC)
    fd, path = tempfile.mkstemp()
    Path(path).unlink()
    return fd
