"""How the disk thread carries out a batch of jobs.

First every durable file is written beside its place and all of them are synced side by side. Then what others can see -
renames, appends, removals - happens strictly in the order of the jobs. Last, each folder that got a durable name, and
each file that got a durable append, is synced once: together with the files of the next batch, so that a batch costs
one wait for the disk, not two. A crash at any point leaves each file old or new, never mixed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Generic, Protocol, TypeVar, final

from volcanic.storage.filesystem import FileSystem
from volcanic.storage.operations import Append, Op, Remove, Replace
from volcanic.storage.syncing import SyncPool

TEMP_PREFIX = ".tmp-"
_KEPT_OPEN = 64


class Job(Protocol):
    """A job as the batch sees it: what to do, and where its first error goes."""

    @property
    def ops(self) -> Sequence[Op]:
        """What to do, in order."""

    error: Exception | None


@final
class _Temp:
    """A durable file on its way: written beside its place, not yet renamed."""

    __slots__ = ("error", "handle", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.handle = -1
        self.error: Exception | None = None


JobT = TypeVar("JobT", bound=Job)


@final
class BatchWriter(Generic[JobT]):
    """Carries out batches on the thread that calls it; owns the temp files and handles it makes."""

    def __init__(self, fs: FileSystem, helpers: int, name: str = "") -> None:
        """Take the system to write to, how many threads may sync beside this one, and whose temp files these are."""
        self._fs = fs
        self._pool = SyncPool(fs.sync, helpers)
        self.token = f"{name}-{secrets.token_hex(4)}" if name else secrets.token_hex(4)
        self._temps = 0
        self._open: OrderedDict[str, int] = OrderedDict()
        self._folders: dict[str, list[JobT]] = {}
        self._appended: list[tuple[int, JobT]] = []
        self._closing: list[int] = []
        self._unsure: list[JobT] = []

    def step(self, jobs: Sequence[JobT]) -> list[JobT]:
        """Do all jobs, and finish those that the step before left to be made durable; return the jobs now done.

        A job that is done has `error` None if and only if all its operations are. While `unfinished` is true, another
        step (perhaps without jobs) is due.
        """
        temps = [[self._write_temp(op) for op in job.ops if type(op) is Replace and op.durable] for job in jobs]
        done = self._sync([temp for job_temps in temps for temp in job_temps if temp.error is None])
        for job, job_temps in zip(jobs, temps, strict=True):
            self._perform_all(job, job_temps)
        waiting = {id(job) for group in self._folders.values() for job in group}
        waiting.update(id(job) for _, job in self._appended)
        for job in jobs:
            if job.error is None and (id(job) in waiting or (waiting and not job.ops)):
                self._unsure.append(job)
            else:
                done.append(job)
        return done

    @property
    def unfinished(self) -> bool:
        """Whether the last step left something to be made durable."""
        return bool(self._folders or self._appended)

    def close(self) -> None:
        """Close what is kept open and end the helping threads."""
        for handle in self._open.values():
            self._close(handle)
        self._open.clear()
        self._pool.close()

    def _sync(self, temps: Sequence[_Temp]) -> list[JobT]:
        """Sync new files, and the folders and files of the step before; return the jobs which that completes."""
        folders, self._folders = self._folders, {}
        appended, self._appended = self._appended, []
        closing, self._closing = self._closing, []
        unsure, self._unsure = self._unsure, []
        handles = [temp.handle for temp in temps]
        waiting: list[list[JobT]] = []
        for path, jobs in folders.items():
            try:
                handles.append(self._fs.open_folder(path))
            except Exception as error:  # noqa: BLE001 - an unsynced folder fails the jobs that named something in it
                _fail(jobs, error)
            else:
                closing.append(handles[-1])
                waiting.append(jobs)
        handles.extend(handle for handle, _ in appended)
        waiting.extend([job] for _, job in appended)
        errors = self._pool.sync(handles) if handles else []
        for temp, failure in zip(temps, errors, strict=False):
            temp.error = failure
        for jobs, failure in zip(waiting, errors[len(temps) :], strict=True):
            if failure is not None:
                _fail(jobs, failure)
        for handle in closing:
            self._close(handle)
        return unsure

    def _perform_all(self, job: JobT, temps: Sequence[_Temp]) -> None:
        prepared = iter(temps)
        try:
            for op in job.ops:
                self._perform(job, op, prepared)
        except Exception as error:  # noqa: BLE001 - one job's failure is its own; the thread serves the next
            job.error = error
            for temp in prepared:
                self._discard(temp)

    def _perform(self, job: JobT, op: Op, prepared: Iterator[_Temp]) -> None:
        if type(op) is Append:
            self._append(job, op)
        elif type(op) is Remove:
            self._remove(job, op)
        elif type(op) is Replace:
            self._put_in_place(job, op, next(prepared) if op.durable else self._write_temp(op))

    def _write_temp(self, op: Replace) -> _Temp:
        self._temps += 1
        temp = _Temp(f"{_folder_of(op.path)}/{TEMP_PREFIX}{self.token}-{self._temps:x}")
        try:
            temp.handle = self._create(temp.path, op)
            self._write(temp.handle, op.data)
        except Exception as error:  # noqa: BLE001 - raised by whoever puts the file in place
            temp.error = error
        return temp

    def _put_in_place(self, job: JobT, op: Replace, temp: _Temp) -> None:
        if temp.error is not None:
            self._discard(temp)
            raise temp.error
        try:
            handle, temp.handle = temp.handle, -1
            self._fs.close(handle)
            self._fs.rename(temp.path, op.path)
        except BaseException:
            self._discard(temp)
            raise
        self._forget(op.path)
        if op.durable:
            self._folders.setdefault(_folder_of(op.path), []).append(job)

    def _append(self, job: JobT, op: Append) -> None:
        handle = self._open.get(op.path, -1) if op.keep_open else -1
        if handle < 0:
            handle = self._open_append(op)
        try:
            self._write_end(handle, op.data)
            if op.durable:
                self._appended.append((handle, job))
        finally:
            if not op.keep_open:
                self._retire(handle)

    def _open_append(self, op: Append) -> int:
        try:
            handle = self._fs.open_append(op.path)
        except FileNotFoundError:
            if not op.folders:
                raise
            self._fs.make_folders(_folder_of(op.path))
            handle = self._fs.open_append(op.path)
        if op.keep_open:
            self._open[op.path] = handle
            if len(self._open) > _KEPT_OPEN:
                self._retire(self._open.popitem(last=False)[1])
        return handle

    def _remove(self, job: JobT, op: Remove) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._fs.remove(op.path)
        self._forget(op.path)
        if op.durable:
            self._folders.setdefault(_folder_of(op.path), []).append(job)

    def _create(self, path: str, op: Replace) -> int:
        try:
            return self._fs.create(path)
        except FileNotFoundError:
            if not op.folders:
                raise
            self._fs.make_folders(_folder_of(op.path))
            return self._fs.create(path)

    def _write(self, handle: int, data: bytes) -> None:
        written = self._fs.write(handle, data)
        if written != len(data):
            self._write_rest(handle, memoryview(data), written)

    def _write_rest(self, handle: int, view: memoryview, written: int) -> None:
        while written < len(view):
            more = self._fs.write(handle, view[written:])
            if more <= 0:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            written += more

    def _write_end(self, handle: int, data: bytes) -> None:
        """Write at the end of an append-only file; on an error cut off the part that got there."""
        written = self._fs.write(handle, data)
        if written == len(data):
            return
        before = self._fs.size(handle) - written
        try:
            self._write_rest(handle, memoryview(data), written)
        except BaseException:
            with contextlib.suppress(OSError):
                self._fs.truncate(handle, before)
            raise

    def _discard(self, temp: _Temp) -> None:
        if temp.handle >= 0:
            self._close(temp.handle)
            temp.handle = -1
        with contextlib.suppress(OSError):
            self._fs.remove(temp.path)

    def _forget(self, path: str) -> None:
        handle = self._open.pop(path, -1) if self._open else -1
        if handle >= 0:
            self._retire(handle)

    def _retire(self, handle: int) -> None:
        """Close a handle, after the syncs of this batch when one of them may need it."""
        if self._appended:
            self._closing.append(handle)
        else:
            self._close(handle)

    def _close(self, handle: int) -> None:
        with contextlib.suppress(OSError):
            self._fs.close(handle)


def _fail(jobs: Sequence[Job], error: Exception) -> None:
    for job in jobs:
        if job.error is None:
            job.error = error


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"
