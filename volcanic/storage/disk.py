"""All file writes of a process: one thread, jobs in order, one group commit a batch.

A job is a few operations that one caller awaits. While the thread works on a batch, further jobs queue up and become
the next batch; its files are made durable side by side, and each folder is synced once for all of them. The event loop
is woken once a batch. A durable `Replace` reaches the disk as write(temp), sync(temp), rename, sync(folder), in order.

Measured with `bench/disk.py` (two processors, shared): 100 to 160 us of CPU a SendMessage at 16 and more submitters,
of which the kernel's part is nearly all; syncing one file after another serves a tenth as many on busy processors.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import queue
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import final

import structlog
import trio

from volcanic.storage.batch import TEMP_PREFIX, BatchWriter
from volcanic.storage.filesystem import FileSystem, OsFileSystem
from volcanic.storage.operations import Append, Op, Remove, Replace

__all__ = ["Append", "Disk", "FileSystem", "Op", "OsFileSystem", "Remove", "Replace", "open_disk", "sweep_temps"]

CAPACITY = 256
"""Jobs that the thread has at most; those beyond wait with their submitters, in order (none is refused)."""

BATCH = 64
"""Jobs of one batch at most; each durable file of a batch is an open handle until it is synced."""

SYNC_HELPERS = 15
"""Threads that sync beside the disk thread: on busy processors each wait for the disk costs a turn in their queue."""

DRAIN_SECONDS = 10.0

_log = structlog.get_logger(__name__)


@final
class _Job:
    """One `submit`: its operations, its first error, and who waits (nobody, once cancelled)."""

    __slots__ = ("error", "ops", "task")

    def __init__(self, ops: tuple[Op, ...], task: trio.lowlevel.Task) -> None:
        self.ops = ops
        self.error: Exception | None = None
        self.task: trio.lowlevel.Task | None = task


@final
class Disk:
    """The write side of a process's files; made by `open_disk`, which owns its thread.

    `jobs`, `batches` and `largest` (a batch's most jobs) count what was done so far.
    """

    def __init__(self, capacity: int, token: str) -> None:
        """Take the bound on jobs under way and what tells this disk's temp files; `open_disk` starts the thread."""
        self.token = token
        self.jobs = 0
        self.batches = 0
        self.largest = 0
        self._capacity = capacity
        self._under_way = 0
        self._waiting: dict[_Job, None] = {}
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = False
        self._done = trio.Event()

    async def submit(self, *ops: Op) -> None:
        """Have `ops` done, in order, after those of every job submitted before; return when all of them are done.

        At the first operation that fails the rest of the job is left undone. A caller that is cancelled either never
        submitted, or leaves the job to complete without it. Without operations: wait for every earlier job.

        Raises:
            OSError: one of these operations failed. After a failed sync the new content may be visible, but counts
                as not stored.
            trio.ClosedResourceError: the disk is closed.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._closed:
            raise trio.ClosedResourceError("the disk is closed")
        job = _Job(ops, trio.lowlevel.current_task())
        if self._under_way < self._capacity:
            self._under_way += 1
            self._queue.put(job)
        else:
            self._waiting[job] = None

        def abandon(_raise_cancel: object) -> trio.lowlevel.Abort:
            job.task = None
            self._waiting.pop(job, None)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abandon)
        if job.error is not None:
            raise job.error

    def waiting(self) -> int:
        """Return how many jobs the thread has not taken yet."""
        return self._queue.qsize() + len(self._waiting)

    def _settle(self, jobs: list[_Job]) -> None:
        self.batches += 1
        self.jobs += len(jobs)
        self.largest = max(self.largest, len(jobs))
        self._under_way -= len(jobs)
        self._admit(self._capacity - self._under_way)
        for job in jobs:
            task = job.task
            if task is not None:
                job.task = None
                trio.lowlevel.reschedule(task)
            elif job.error is not None:
                _log.warning("a write that nobody waits for any more failed", error=repr(job.error))

    def _admit(self, room: int) -> None:
        """Give the thread up to `room` of the jobs that waited, oldest first."""
        for job in list(itertools.islice(self._waiting, room)):
            del self._waiting[job]
            self._under_way += 1
            self._queue.put(job)

    def _take(self, *, wait: bool) -> tuple[list[_Job], bool]:
        """Return the next jobs, at least one if told to wait; the second value is False once the end mark came."""
        jobs: list[_Job] = []
        try:
            while len(jobs) < BATCH:
                job = self._queue.get(block=wait and not jobs)
                if job is None:
                    return jobs, False
                jobs.append(job)
        except queue.Empty:
            pass
        return jobs, True

    def _serve(self, writer: BatchWriter[_Job], token: trio.lowlevel.TrioToken) -> None:
        """Run the disk thread until it takes the end mark."""
        going = True
        while going or writer.unfinished:
            jobs, going = self._take(wait=not writer.unfinished) if going else ([], False)
            done = writer.step(jobs)
            if done:
                _tell(token, functools.partial(self._settle, done))
        writer.close()
        _tell(token, self._done.set)

    def _end(self) -> None:
        """Take no more, and have the thread end when it has done what it was given."""
        self._closed = True
        self._admit(len(self._waiting))
        self._queue.put(None)


def _tell(token: trio.lowlevel.TrioToken, call: Callable[[], None]) -> None:
    with contextlib.suppress(trio.RunFinishedError):  # after a hard stop nobody is left to hear it
        token.run_sync_soon(call)


@asynccontextmanager
async def open_disk(
    fs: FileSystem | None = None,
    *,
    capacity: int = CAPACITY,
    helpers: int = SYNC_HELPERS,
    drain_seconds: float = DRAIN_SECONDS,
    name: str = "",
) -> AsyncGenerator[Disk, None]:
    """Run a disk thread for the length of the block.

    Leaving the block, for whatever reason, lets the thread finish the jobs it was given, for at most `drain_seconds`;
    a thread that hangs longer is abandoned (it ends with the process).
    """
    writer: BatchWriter[_Job] = BatchWriter(fs or OsFileSystem(), helpers, name)
    disk = Disk(capacity, writer.token)
    arguments = (writer, trio.lowlevel.current_trio_token())
    threading.Thread(target=disk._serve, args=arguments, name="disk", daemon=True).start()  # noqa: SLF001
    try:
        yield disk
    finally:
        disk._end()  # noqa: SLF001
        with trio.CancelScope(deadline=trio.current_time() + drain_seconds, shield=True) as scope:
            await disk._done.wait()  # noqa: SLF001
        if scope.cancelled_caught:
            _log.error("the disk did not take everything in time", seconds=drain_seconds, waiting=disk.waiting())


def sweep_temps(folder: str, older_than: float, name: str = "", living: str = "") -> int:
    """Remove temp files that a crash left in a folder and that are older than `older_than` seconds; return how many.

    With a `name`, only those of disks that were opened under it; those of the `living` one (its `token`) are left.

    A missing folder has none. Blocks: call it at start or in a thread.
    """
    removed = 0
    prefix = f"{TEMP_PREFIX}{name}-" if name else TEMP_PREFIX
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        horizon = time.time() - older_than
        for entry in entries:
            if not entry.name.startswith(prefix) or (living and living in entry.name):
                continue
            # What cannot be removed (a folder, another user's file) is left; it must not keep a service from starting.
            with contextlib.suppress(OSError):
                if entry.stat(follow_symlinks=False).st_mtime <= horizon:
                    os.unlink(entry.path)  # noqa: PTH108
                    removed += 1
    return removed
