"""A slot's share of a page of tasks, with what each row needs before it may be shown."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import msgspec
import trio
from msgspec import Raw

from actors import rendering
from actors.asking import Workspace
from actors.messages import ListPage, ListRow, ListTasks
from volcanic.protocol.states import is_active
from volcanic.protocol.types import Task
from volcanic.storage.index import TaskIndex, TaskQuery


@attrs.frozen
class FoundRow:
    """One task of a page as its file has it; `active` says that it is stored as running."""

    timestamp: str
    task_id: str
    active: bool
    version: int
    task: Task


@attrs.frozen
class FoundPage:
    """A page as the files have it."""

    total: int
    rows: list[FoundRow]
    call: ListTasks

    def shown(self) -> ListPage:
        """Return the page as it is answered: copies, trimmed as the call says."""
        return ListPage(self.total, [ListRow(row.timestamp, row.task_id, self._task(row.task)) for row in self.rows])

    def _task(self, task: Task) -> Raw:
        if not self.call.artifacts:
            task = msgspec.structs.replace(task, artifacts=[])
        return Raw(rendering.task_json(task, self.call.history_length))


class Listing:
    """The listings of a slot's workspaces; each keeps what it read of the files that have not changed since."""

    def __init__(self, owns: Callable[[str], bool]) -> None:
        self._owns = owns
        self._indexes: dict[str, TaskIndex] = {}

    async def page(self, workspace: Workspace, call: ListTasks) -> FoundPage:
        """Return the page; the folder is read in a thread.

        Raises:
            OSError: the folder cannot be read.
        """
        index = self._indexes.get(workspace.path)
        if index is None:
            index = self._indexes[workspace.path] = TaskIndex(workspace.tasks, self._owns)
        query = TaskQuery(
            caller=call.caller,
            limit=call.limit,
            before=call.before,
            context_id=call.context_id,
            state=call.state,
            since=call.since,
        )
        return await trio.to_thread.run_sync(_read, index, workspace, query, call)


def _read(index: TaskIndex, workspace: Workspace, query: TaskQuery, call: ListTasks) -> FoundPage:
    total, rows = index.page(query)
    found: list[FoundRow] = []
    for row in rows:
        record = workspace.tasks.read(row.task_id)
        # One that changed hands or went between the two reads is left out, as if it had gone a moment before.
        if record is not None and record.caller == call.caller:
            state = record.task.status.state
            found.append(FoundRow(row.timestamp, row.task_id, is_active(state), record.version, record.task))
    return FoundPage(total, found, call)
