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
from volcanic.storage.index import TaskIndex, TaskQuery

PAGE_BYTES = 8 * 1024 * 1024
"""What a slot's share of a page may weigh; a page of heavier tasks is shorter than asked, with a token for the rest."""


@attrs.frozen
class FoundRow:
    """One task of a page as it is answered; `active` says that it is stored as running."""

    timestamp: str
    task_id: str
    active: bool
    version: int
    task: Raw


@attrs.frozen
class FoundPage:
    """A page as the files have it; `cut` says that more follows although it is not full."""

    total: int
    rows: list[FoundRow]
    cut: bool

    def shown(self) -> ListPage:
        """Return the page as it is answered."""
        return ListPage(self.total, [ListRow(row.timestamp, row.task_id, row.task) for row in self.rows], self.cut)


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
    weight = 0
    for row in rows:
        record = workspace.tasks.read(row.task_id)
        # One that changed hands or went between the two reads is left out, as if it had gone a moment before.
        if record is None or record.caller != call.caller:
            continue
        task = record.task if call.artifacts else msgspec.structs.replace(record.task, artifacts=[])
        shown = Raw(rendering.task_json(task, call.history_length))
        weight += len(bytes(shown))
        if found and weight > PAGE_BYTES:
            return FoundPage(total, found, cut=True)
        active = is_active(record.task.status.state)
        found.append(FoundRow(row.timestamp, row.task_id, active, record.version, shown))
    return FoundPage(total, found, cut=len(rows) == call.limit and len(found) < len(rows))
