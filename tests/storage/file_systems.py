"""File systems for tests: one that records, one that fails at the n-th call, one that knows what a power cut leaves."""

from __future__ import annotations

import itertools
import os
import threading
from pathlib import Path

from volcanic.storage.filesystem import OsFileSystem

CALLS = ("create", "open_append", "open_folder", "write", "truncate", "size", "sync", "close", "rename", "remove")


class Recording:
    """The real file system; `calls` holds (name, path) of every call, handles shown as the path they were opened by."""

    def __init__(self):
        self.real = OsFileSystem()
        self.calls = []
        self.open = {}
        self._lock = threading.Lock()

    def before(self, name):
        """Called before each call that a subclass may want to fail."""

    def _run(self, name, path, call):
        with self._lock:
            self.calls.append((name, path))
            self.before(name)
        return call()

    def _opened(self, name, path, call):
        handle = self._run(name, path, call)
        self.open[handle] = path
        return handle

    def create(self, path):
        return self._opened("create", path, lambda: self.real.create(path))

    def open_append(self, path):
        return self._opened("open_append", path, lambda: self.real.open_append(path))

    def open_folder(self, path):
        return self._opened("open_folder", path, lambda: self.real.open_folder(path))

    def write(self, handle, data):
        return self._run("write", self.open[handle], lambda: self.real.write(handle, data))

    def truncate(self, handle, size):
        self._run("truncate", self.open[handle], lambda: self.real.truncate(handle, size))

    def size(self, handle):
        return self._run("size", self.open[handle], lambda: self.real.size(handle))

    def sync(self, handle):
        self._run("sync", self.open[handle], lambda: self.real.sync(handle))

    def close(self, handle):
        path = self.open.pop(handle)
        try:
            self._run("close", path, lambda: None)
        finally:
            self.real.close(handle)

    def rename(self, source, target):
        self._run("rename", (source, target), lambda: self.real.rename(source, target))

    def remove(self, path):
        self._run("remove", path, lambda: self.real.remove(path))

    def make_folders(self, path):
        self._run("make_folders", path, lambda: self.real.make_folders(path))


class Failing(Recording):
    """Fails the `nth` call (from 1) of `name` with `errno`, and every later one too when `forever`."""

    def __init__(self, name, nth, errno, *, forever=False):
        super().__init__()
        self.name = name
        self.nth = nth
        self.errno = errno
        self.forever = forever
        self.fired = 0

    def before(self, name):
        if name != self.name:
            return
        self.nth -= 1
        if self.nth == 0 or (self.nth < 0 and self.forever):
            self.fired += 1
            raise OSError(self.errno, os.strerror(self.errno))


class ShortWrites(Recording):
    """Takes at most `room` bytes in all, a few at a time, then the disk is full."""

    def __init__(self, room, step=5):
        super().__init__()
        self.room = room
        self.step = step

    def write(self, handle, data):
        if not self.room:
            raise OSError(28, "No space left on device")
        taken = min(self.room, self.step, len(data))
        self.room -= taken
        return super().write(handle, bytes(data[:taken]))


class PowerCut:
    """A file system in memory that says what may be left after a power cut between any two of its calls.

    Names reach the disk in the order of their calls, none before its folder's sync forces all of them; data reaches it
    at the file's sync, and before that as nothing, a part, or all of it.
    """

    def __init__(self, files):
        self.contents = list(files.values())  # by inode
        self.synced = list(files.values())
        self.names = {path: inode for inode, path in enumerate(files)}
        self.log = []  # (names after the call, index of names that are sure, contents, synced contents)
        self.history = [dict(self.names)]
        self.sure = 0
        self.handles = {}
        self.next = itertools.count(100)
        self._note()

    def _note(self):
        self.log.append((len(self.history), self.sure, list(self.contents), list(self.synced)))

    def _named(self):
        self.history.append(dict(self.names))
        self._note()

    def create(self, path):
        assert path not in self.names
        self.contents.append(b"")
        self.synced.append(b"")
        self.names[path] = len(self.contents) - 1
        self._named()
        return self._handle(self.names[path])

    def open_append(self, path):
        if path not in self.names:
            return self.create(path)
        return self._handle(self.names[path])

    def open_folder(self, _path):
        return self._handle(None)

    def _handle(self, inode):
        handle = next(self.next)
        self.handles[handle] = inode
        return handle

    def write(self, handle, data):
        self.contents[self.handles[handle]] += bytes(data)
        self._note()
        return len(data)

    def sync(self, handle):
        inode = self.handles[handle]
        if inode is None:
            self.sure = len(self.history) - 1
        else:
            self.synced[inode] = self.contents[inode]
        self._note()

    def close(self, handle):
        del self.handles[handle]

    def rename(self, source, target):
        self.names[target] = self.names.pop(source)
        self._named()

    def remove(self, path):
        if path not in self.names:
            raise FileNotFoundError(path)
        del self.names[path]
        self._named()

    def truncate(self, handle, size):
        self.contents[self.handles[handle]] = self.contents[self.handles[handle]][:size]
        self._note()

    def size(self, handle):
        return len(self.contents[self.handles[handle]])

    def make_folders(self, _path):
        pass

    def crash_states(self, path):
        """Yield (calls made, everything synced, content of `path` or None) for every state that a cut may leave."""
        for calls, (histories, sure, contents, synced) in enumerate(self.log):
            for names in self.history[sure:histories]:
                inode = names.get(path)
                if inode is None:
                    yield calls, None
                elif contents[inode] == synced[inode]:
                    yield calls, synced[inode]
                else:
                    rest = contents[inode][len(synced[inode]) :]
                    for part in (b"", rest[: len(rest) // 2], b"\0" * len(rest), rest):
                        yield calls, synced[inode] + part


def names(folder):
    """Return the names in a folder, sorted."""
    return sorted(path.name for path in Path(folder).iterdir())
