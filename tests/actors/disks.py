"""File systems for these tests: one whose calls can be held up, between a write and its end, and one that fails."""

from __future__ import annotations

import os
import threading

from tests.storage.file_systems import Recording

HELD_SECONDS = 20.0
"""How long a call is held at most: a test that forgot to let go fails by what it asserts, not by a hang."""


class Gate(Recording):
    """The real file system; while the gate is closed, calls of one name wait in the disk's thread."""

    def __init__(self):
        super().__init__()
        self.held = threading.Event()
        """Set once a call waits."""
        self._name = ""
        self._suffix = ""
        self._open = threading.Event()
        self._open.set()

    def close_at(self, name, suffix=""):
        """Hold the next calls of `name`, whose path (a rename's target) ends with `suffix`."""
        self.held.clear()
        self._name, self._suffix = name, suffix
        self._open.clear()

    def open_gate(self):
        """Let go of what waits, and hold nothing more."""
        self._open.set()

    def before(self, name):
        if name == self._name and not self._open.is_set() and self._target().endswith(self._suffix):
            self.held.set()
            self._open.wait(HELD_SECONDS)

    def _target(self):
        path = self.calls[-1][1]
        return path if isinstance(path, str) else path[1]


class Faulty(Recording):
    """The real file system, whose `nth` call fails; a lasting fault fails every call from there until it is `mended`.

    Closing and removing never fail: a full disk lets files go.
    """

    SURE = frozenset({"close", "remove", "truncate", "size"})

    def __init__(self, nth, error, *, lasting):
        super().__init__()
        self.fired = 0
        self.mended = False
        self._nth = nth
        self._error = error
        self._lasting = lasting
        self._count = 0

    def before(self, name):
        if name in self.SURE or self.mended:
            return
        self._count += 1
        if self._count == self._nth or (self._lasting and self._count > self._nth):
            self.fired += 1
            raise OSError(self._error, os.strerror(self._error))
