"""The owner's side of the Owner API: every session of a slot, under one dynamic supervisor, and the calls upon them."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import attrs
import structlog
import trio

from actors import rendering
from actors.asking import Asker, Ground, Workspace
from actors.listing import FoundRow, Listing
from actors.live_runs import LiveRuns
from actors.messages import CancelTask, GetTask, ListPage, ListTasks, Send, Subscribe
from actors.records import with_status
from actors.ref import Promise, Reply, ask
from actors.registry import Registry
from actors.session import Key, Session
from actors.session_messages import Cancel, Follow, Message, Repair, Start
from actors.task_run import RESTARTED, TaskRun, not_stored
from supervisors.child_spec import ChildSpec
from supervisors.tree import TreeNode
from volcanic.protocol.errors import A2AError, ErrorKind
from volcanic.protocol.states import is_active
from volcanic.protocol.types import TaskState
from volcanic.storage.tasks import TaskRecord

REPAIR_SECONDS = 30.0
"""How long a reader waits for the repair of an interrupted task."""

SHOWN = 500
"""Sessions that the tree lists one by one; a description has to fit a frame of the worker's channel."""

log = structlog.get_logger(__name__)


class Contexts:
    """The sessions and runs of one slot.

    `start_child` is the slot's dynamic supervisor: it starts a session's task when a message wakes it.
    """

    def __init__(self, ground: Ground, start_child: Callable[[ChildSpec], None], owns: Callable[[str], bool]) -> None:
        self.sessions: Registry[Key, Session] = Registry()
        self.runs = LiveRuns()
        self._ground = ground
        self._start_child = start_child
        self._closing = False
        self._owns = owns
        self._listing = Listing(owns)

    # -- calls -----------------------------------------------------------------------------------------------------

    def send(self, call: Send, asker: Asker) -> None:
        """Start or continue a task."""
        workspace = self._workspace(call.workspace)
        if call.new or workspace is None:
            self._tell((call.workspace, call.caller, call.context_id), Start(call, asker), asker)
            return
        context_id = self._context_of(workspace, call.caller, call.task_id)
        if context_id is None:
            asker.refuse(A2AError(ErrorKind.TASK_NOT_FOUND))
        elif call.context_id not in {"", context_id}:
            asker.refuse(
                A2AError(ErrorKind.INVALID_PARAMS, "the task belongs to another context", field="message.contextId")
            )
        else:
            self._tell((call.workspace, call.caller, context_id), Start(call, asker), asker)

    def cancel(self, call: CancelTask, asker: Asker) -> None:
        """Cancel a task."""
        self._tell_about(call.workspace, call.caller, call.task_id, Cancel(call.task_id, asker), asker)

    def subscribe(self, call: Subscribe, asker: Asker) -> None:
        """Follow a task."""
        self._tell_about(call.workspace, call.caller, call.task_id, Follow(call.task_id, asker), asker)

    async def get_task(self, call: GetTask) -> bytes:
        """Return the JSON of a task as it is shown now.

        Raises:
            A2AError: no such task of this caller, or what it would show cannot be stored.
        """
        workspace = self._workspace(call.workspace)
        run = self.runs.get(call.task_id)
        if run is not None and run.workspace is workspace and run.record.caller == call.caller:
            await self._make_durable(run)
            if not run.over:
                return rendering.task_json(run.record.task, call.history_length)
        record = None if workspace is None else workspace.tasks.read(call.task_id)
        if workspace is None or record is None or record.caller != call.caller:
            raise A2AError(ErrorKind.TASK_NOT_FOUND)
        if is_active(record.task.status.state):
            await self._repair(workspace, record)
            record = workspace.tasks.read(call.task_id)
            if record is None:
                raise A2AError(ErrorKind.TASK_NOT_FOUND)
        return rendering.task_json(record.task, call.history_length)

    async def list_tasks(self, call: ListTasks) -> ListPage:
        """Return this slot's share of a page.

        Raises:
            A2AError: what it would show cannot be stored.
        """
        workspace = self._workspace(call.workspace)
        if workspace is None:
            return ListPage(0, [])
        while True:
            try:
                page = await self._listing.page(workspace, call)
            except OSError as error:
                log.warning("tasks_not_listed", workspace=workspace.path, error=repr(error))
                raise A2AError(ErrorKind.INTERNAL, "The tasks could not be read") from None
            stale = [row.task_id for row in page.rows if row.active and row.task_id not in self.runs]
            rows = [row for row in page.rows if await self._is_stored(workspace, row)]
            if not stale:
                cut = page.cut or (len(rows) < len(page.rows) == call.limit)
                return attrs.evolve(page, rows=rows, cut=cut).shown()
            for task_id in stale:
                record = workspace.tasks.read(task_id)
                if record is not None and is_active(record.task.status.state):
                    await self._repair(workspace, record)

    async def _is_stored(self, workspace: Workspace, row: FoundRow) -> bool:
        """Have a row of a live run stored as it is shown; False when it turned out to be none.

        Raises:
            A2AError: it cannot be stored.
        """
        run = self.runs.get(row.task_id)
        if run is None:
            return True
        if run.settling and not row.active:
            # The file may show an end that the disk has yet to confirm.
            await run.ended()
        else:
            await self._make_durable(run)
        if not run.over:
            return True
        record = workspace.tasks.read(row.task_id)
        return record is not None and (row.active or record.version == row.version)

    # -- the slot's life -------------------------------------------------------------------------------------------

    async def settle_predecessor(self) -> int:
        """Fail at once the runs that this slot's predecessor left, and start the live log anew; return how many.

        Call it before the first call is served: blocked callers, asking again, then find their tasks settled.
        """
        left = self._ground.live.unfinished()
        settled: list[str] = []
        async with trio.open_nursery() as nursery:
            for run in left:
                workspace = self._workspace(run.workspace)
                # One from a life with another number of slots is settled by its owner of today, when it is read.
                if workspace is not None and self._owns(run.task_id):
                    nursery.start_soon(self._settle_left, workspace, run.task_id, settled)
        for run in left:
            self._ground.live.forget(run.task_id)
        try:
            await self._ground.disk.submit(self._ground.live.compact_op())
        except OSError as error:
            # The log goes on at its old end; what is in it twice does no harm.
            log.warning("live_log_not_compacted", error=repr(error))
        return len(settled)

    async def _settle_left(self, workspace: Workspace, task_id: str, settled: list[str]) -> None:
        try:
            record = workspace.tasks.read(task_id)
            if record is None or not is_active(record.task.status.state):
                return
            failed = with_status(record, TaskState.FAILED, RESTARTED, self._ground.clock.wall())
            await self._ground.disk.submit(workspace.tasks.replace_op(failed, durable=True))
        except OSError as error:
            # Left as it is: the next reader tries again.
            log.warning("task_not_settled", taskId=task_id, error=repr(error))
        else:
            settled.append(task_id)

    def describe(self) -> list[TreeNode]:
        """Return the sessions for the tree: those with a task of their own and the idle ones, at most `SHOWN`."""
        shown = [session.describe() for session in itertools.islice(self.sessions, SHOWN)]
        if len(self.sessions) > SHOWN:
            more = len(self.sessions) - SHOWN
            shown.append(TreeNode(id=f"and {more} more", kind="worker", state="running"))
        return shown

    def close(self) -> None:
        """Start no more runs: callers are told to try again, at the slot's successor."""
        self._closing = True

    async def drain(self, seconds: float) -> None:
        """Let live runs end by themselves for `seconds`, then settle the rest, and end what streams are left."""
        with trio.move_on_after(seconds):
            await self.runs.none_left()
        self.runs.interrupt()
        with trio.move_on_after(self._ground.settings.settle_seconds):
            await self.runs.none_left()
        for session in self.sessions:
            session.close_followers("drain")

    # -- helpers ---------------------------------------------------------------------------------------------------

    def _workspace(self, path: str) -> Workspace | None:
        return self._ground.workspaces.get(path)

    def _context_of(self, workspace: Workspace, caller: str, task_id: str) -> str | None:
        """Return the context of a caller's task, or None when the caller has no such task."""
        run = self.runs.get(task_id)
        if run is not None and run.workspace is workspace:
            context_id = run.record.task.context_id
            owner = run.record.caller
        else:
            facts = workspace.tasks.facts(task_id)
            if facts is None:
                return None
            context_id, owner = facts.context_id, facts.caller
        if owner != caller:
            return None
        return context_id if isinstance(context_id, str) else ""

    def _tell_about(self, path: str, caller: str, task_id: str, message: Message, asker: Asker) -> None:
        workspace = self._workspace(path)
        context_id = None if workspace is None else self._context_of(workspace, caller, task_id)
        if context_id is None:
            asker.refuse(A2AError(ErrorKind.TASK_NOT_FOUND))
        else:
            self._tell((path, caller, context_id), message, asker)

    def _tell(self, key: Key, message: Message, asker: Reply[bytes]) -> None:
        if key[0] not in self._ground.workspaces:
            asker.refuse(A2AError(ErrorKind.UNAVAILABLE))
            return
        if self._closing and isinstance(message, Start):
            asker.refuse(A2AError(ErrorKind.SUCCESSOR))
            return
        session = self.sessions.get(key)
        if session is None:
            session = Session(key, self._ground, self.runs, self._start_child, self._crashed)
            self.sessions.add(key, session)
        session.tell(message)

    def _crashed(self, key: Key) -> None:
        self.sessions.remove(key, "crash")

    async def _repair(self, workspace: Workspace, record: TaskRecord) -> None:
        context_id = record.task.context_id if isinstance(record.task.context_id, str) else ""
        key = (workspace.path, record.caller, context_id)

        def tell(promise: Promise[bytes]) -> None:
            self._tell(key, Repair(record.task.id, promise), promise)

        try:
            await ask(tell, REPAIR_SECONDS)
        except trio.TooSlowError:
            raise A2AError(ErrorKind.UNAVAILABLE) from None

    @staticmethod
    async def _make_durable(run: TaskRun) -> None:
        try:
            await run.make_durable()
        except OSError as error:
            raise not_stored(error) from error
