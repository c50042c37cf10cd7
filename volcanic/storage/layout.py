"""Where every file of a workspace and of the state folder lies (seed: a2a.md#files; all paths are absolute strings)."""

from __future__ import annotations

import os
from typing import final

import attrs

_PRIVATE = 0o700


def _private_folder(path: str) -> None:
    os.makedirs(path, mode=_PRIVATE, exist_ok=True)  # noqa: PTH103 - strings: paths are built on the hot path


def _absolute(path: str) -> str:
    return os.path.abspath(path)  # noqa: PTH100


@final
@attrs.frozen(slots=True)
class WorkspaceLayout:
    """The files of one workspace; `root` is its folder, made absolute, and also the workspace's name in the program."""

    root: str = attrs.field(converter=_absolute)
    volcanic: str = attrs.field(init=False)
    a2a: str = attrs.field(init=False)
    tasks: str = attrs.field(init=False)

    @volcanic.default
    def _volcanic(self) -> str:
        return f"{self.root}/.volcanic"

    @a2a.default
    def _a2a(self) -> str:
        return f"{self.volcanic}/a2a"

    @tasks.default
    def _tasks(self) -> str:
        return f"{self.a2a}/tasks"

    @property
    def lock(self) -> str:
        """The file on which a running service holds an flock."""
        return f"{self.volcanic}/lock"

    @property
    def callers(self) -> str:
        """Who may call, with their keys."""
        return f"{self.a2a}/callers.json"

    @property
    def card(self) -> str:
        """What the extended card says instead of the defaults."""
        return f"{self.a2a}/card.json"

    @property
    def agents(self) -> str:
        """Whom the assistant may call, with the keys for it."""
        return f"{self.a2a}/agents.json"

    @property
    def pending(self) -> str:
        """The watches of remote tasks."""
        return f"{self.a2a}/pending.json"

    @property
    def index(self) -> str:
        """The folder of listing indexes, a file a slot."""
        return f"{self.a2a}/index"

    @property
    def sessions(self) -> str:
        """The folder of transcripts, a folder a scope."""
        return f"{self.volcanic}/sessions"

    @property
    def owner_inbox(self) -> str:
        """What the owner has not seen yet, a line a note."""
        return f"{self.volcanic}/owner-inbox.jsonl"

    @property
    def jobs(self) -> str:
        """Scheduled prompts."""
        return f"{self.volcanic}/scheduler/jobs.json"

    @property
    def persona(self) -> str:
        """Who the assistant is, in the owner's words."""
        return f"{self.root}/PERSONA.md"

    @property
    def inbox(self) -> str:
        """The folder for files that callers sent."""
        return f"{self.root}/inbox"

    def task(self, task_id: str) -> str:
        """Return a task's file; the id must have passed its grammar, which has no path separator."""
        return f"{self.tasks}/{task_id}.json"

    def push(self, task_id: str) -> str:
        """Return a task's outbox of pushes."""
        return f"{self.tasks}/{task_id}.push.json"

    def index_of(self, slot: str) -> str:
        """Return a slot's listing index."""
        return f"{self.index}/{slot}"

    def session(self, scope: str) -> str:
        """Return the folder of a scope's transcripts."""
        return f"{self.sessions}/{scope}"

    def received(self, task_id: str) -> str:
        """Return the folder for files that a remote agent sent in a task."""
        return f"{self.inbox}/a2a/{task_id}"

    def create(self) -> None:
        """Make the folders that the service writes in; those below `.volcanic` are the user's alone (0700).

        Raises:
            OSError: the workspace cannot be made or written.
        """
        os.makedirs(self.root, exist_ok=True)  # noqa: PTH103
        for folder in (self.volcanic, self.a2a, self.tasks, self.index, self.sessions):
            _private_folder(folder)
        sync_folder(self.tasks)
        sync_folder(self.a2a)
        sync_folder(self.volcanic)
        sync_folder(self.root)


@final
@attrs.frozen(slots=True)
class StateLayout:
    """The state folder of one service: live logs, sockets, the admin socket."""

    root: str = attrs.field(converter=_absolute)

    @property
    def admin_socket(self) -> str:
        """The admin socket, open to the same user only."""
        return f"{self.root}/admin.sock"

    @property
    def live_folder(self) -> str:
        """The folder of live logs."""
        return f"{self.root}/live"

    @property
    def lock(self) -> str:
        """The file on which a running service holds an flock."""
        return f"{self.root}/lock"

    def live(self, slot: str) -> str:
        """Return a slot's log of run starts and ends."""
        return f"{self.live_folder}/{slot}"

    def slot_socket(self, slot: str) -> str:
        """Return the Unix socket on which a slot takes Owner calls."""
        return f"{self.root}/{slot}.sock"

    def create(self) -> None:
        """Make the folders, for this user alone (0700).

        Raises:
            OSError: the folder cannot be made or written.
        """
        for folder in (self.root, self.live_folder):
            _private_folder(folder)
            os.chmod(folder, _PRIVATE)  # noqa: PTH101
        sync_folder(self.root)


def sync_folder(path: str) -> None:
    """Make the entries of a folder durable.

    Raises:
        OSError: it is not there, or the disk failed.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
