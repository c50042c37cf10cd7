"""The session of one (workspace, caller, contextId): one message at a time, one run at a time.

It has a task only while it has something to do. Idle, it is a small object with a stamp; the sweeper drops it after
`SessionIdleTimeout`, and the next message resumes it from its transcript (a2a.md#sessions). A run is its child: the
session ends only after it, so that a context never has two.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import structlog
import trio

from actors import records, rendering
from actors.asking import Asker, Ground, HeldWrites, Workspace
from actors.live_runs import LiveRuns
from actors.mailbox import Mailbox, MailboxFull
from actors.messages import Send
from actors.session_messages import Cancel, Follow, Message, Repair, RunEnded, Start, refuse
from actors.subscription import Subscription
from actors.task_run import RESTARTED, TaskRun, not_stored
from supervisors.child_spec import ChildSpec, Restart
from supervisors.tree import TreeNode
from volcanic.agent.session import AgentSession, Prompt
from volcanic.protocol.errors import A2AError, ErrorKind, context_busy
from volcanic.protocol.states import is_active, is_terminal
from volcanic.protocol.types import TaskState
from volcanic.storage.tasks import TaskRecord

Key = tuple[str, str, str]
"""Workspace, caller, contextId."""

FINISHED = "The task is finished and takes no more messages"

log = structlog.get_logger(__name__)


class Session:
    """See the module. `activate` has the slot's dynamic supervisor start the session's task.

    Overflow answer of its mailbox: a sender is refused as busy, any other asker as over a limit.
    """

    def __init__(
        self,
        key: Key,
        ground: Ground,
        runs: LiveRuns,
        activate: Callable[[ChildSpec], None],
        on_crash: Callable[[Key], None],
    ) -> None:
        self.key = key
        self.last_used = trio.current_time()
        self.mailbox: Mailbox[Message] = Mailbox(ground.settings.mailbox)
        self.run: TaskRun | None = None
        self.handled = 0
        self._ground = ground
        self._workspace: Workspace = ground.workspaces[key[0]]
        self._runs = runs
        self._activate = activate
        self._on_crash = on_crash
        self._active = False
        self._agent: AgentSession | None = None
        self._held = HeldWrites()
        self._followers: dict[str, list[Subscription]] = {}
        self._late: list[Message] = []
        self._spec = ChildSpec(
            id=f"{key[1]}_{key[2]} {key[0]}",
            start=self._live,
            restart=Restart.TEMPORARY,
            shutdown=ground.settings.settle_seconds + 1.0,
        )

    def tell(self, message: Message) -> None:
        """Hand over a message; a full mailbox refuses its asker: a sender as busy, others for now."""
        try:
            self.mailbox.put(message)
        except MailboxFull:
            busy = context_busy()
            refuse(message, busy if isinstance(message, Start) else A2AError(ErrorKind.LIMITED, retry_after=1.0))
            return
        if not self._active:
            self._active = True
            self._activate(self._spec)

    def close_followers(self, reason: str) -> None:
        """End the streams of those who follow a waiting task: what comes after this session knows none of them."""
        followers, self._followers = self._followers, {}
        for follower in itertools.chain.from_iterable(followers.values()):
            follower.close(reason)

    def describe(self) -> TreeNode:
        """Return this session's node of the tree, with its live run."""
        run = self.run
        node = TreeNode(
            id=f"{self.key[1]}_{self.key[2]}",
            kind="worker",
            state="running",
            mailbox=len(self.mailbox),
        )
        if run is not None:
            node.children.append(TreeNode(id=f"run {run.task_id}", kind="worker", state="running"))
        return node

    def evictable(self) -> bool:
        """Whether nothing runs, waits or listens."""
        for task_id, followers in list(self._followers.items()):
            self._followers[task_id] = [follower for follower in followers if not follower.ended]
            if not self._followers[task_id]:
                del self._followers[task_id]
        return not (self._active or self._followers)

    # -- its task --------------------------------------------------------------------------------------------------

    async def _live(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        structlog.contextvars.bind_contextvars(caller=self.key[1], contextId=self.key[2])
        message: Message | None = None
        try:
            while (message := self.mailbox.take()) is not None:
                if self.handled:
                    # A burst of messages about a large task must not stop the heart.
                    await trio.lowlevel.checkpoint()
                self.last_used = trio.current_time()
                self.handled += 1
                await self._handle(message)
        except BaseException:
            self._on_crash(self.key)
            for left in (message, *self._late, *self.mailbox.close()):
                if left is not None:
                    refuse(left, A2AError(ErrorKind.UNAVAILABLE))
            self.close_followers("lost")
            raise
        self._active = False

    async def _handle(self, message: Message) -> None:
        """Handle one message while no run is live."""
        match message:
            case Start():
                await self._start(message)
            case Cancel():
                await self._cancel(message)
            case Follow():
                await self._follow(message)
            case Repair():
                await self._repair(message)
            case RunEnded():
                pass

    async def _handle_busy(self, message: Message, run: TaskRun) -> None:
        """Handle one message beside the live run; what only its end can answer waits for that in `_late`."""
        match message:
            case Start(send=send) if send.again and send.op == run.record.op:
                await self._rejoin(run, message)
            case Start(send=send) if send.task_id != run.task_id and self._stored(send) is not None:
                await self._start(message)
            case Start(asker=asker):
                asker.refuse(context_busy())
            case Cancel(task_id=task_id) if task_id == run.task_id and run.settling:
                self._late.append(message)
            case Cancel(task_id=task_id, asker=asker) if task_id == run.task_id:
                run.cancel(asker)
            case Follow(task_id=task_id, asker=asker) if task_id == run.task_id:
                await self._follow_run(run, asker)
            case Repair(task_id=task_id, asker=asker) if task_id == run.task_id:
                asker.answer(b"null")
            case _:
                await self._handle(message)

    # -- runs ------------------------------------------------------------------------------------------------------

    async def _start(self, message: Start) -> None:
        send, asker = message.send, message.asker
        try:
            if self._stored(send) is not None:
                self._show(await self._settled(send.task_id), send, asker)
                return
            before = (
                None
                if send.new
                else await self._open_task(send.task_id, A2AError(ErrorKind.UNSUPPORTED_OPERATION, FINISHED))
            )
        except A2AError as error:
            asker.refuse(error)
            return
        if before is not None and records.weight(before.task, send.message) > records.TASK_BYTES:
            asker.refuse(A2AError(ErrorKind.UNSUPPORTED_OPERATION, records.TOO_LARGE))
            return
        now = self._ground.clock.wall()
        record = self._admit(send, before, now)
        if send.hops > self._ground.settings.max_hops:
            most = self._ground.settings.max_hops
            text = f"The task was passed on over {send.hops} agents, more than the {most} allowed."
            await self._end_unstarted(records.with_status(record, TaskState.FAILED, text, now), send, asker)
            return
        run = TaskRun(self._ground, self._workspace, self._held, record)
        self.run = run
        self._runs.add(run)
        try:
            await self._run(run, before, send, asker)
        finally:
            self.run = None
            self._runs.remove(run)
            run.abandon()
            self.last_used = trio.current_time()
            if run.staying:
                self._followers.setdefault(run.task_id, []).extend(run.staying)
        late, self._late = self._late, []
        for waiting in late:
            self.mailbox.put_own(waiting)

    def _stored(self, send: Send) -> TaskRecord | None:
        """Return the task of a send that is asked again and whose run was stored before; else None."""
        stored = self._own(send.task_id) if send.again else None
        return stored if stored is not None and (send.new or stored.op == send.op) else None

    def _admit(self, send: Send, before: TaskRecord | None, now: float) -> TaskRecord:
        """Return the record the run starts from."""
        stamp = self._ground.stamp
        if before is None:
            return records.fresh(send.caller, send.op, send.task_id, self.key[2], send.message, stamp, now)
        return records.continued(before, send.op, send.message, stamp, now)

    async def _run(self, run: TaskRun, before: TaskRecord | None, send: Send, asker: Asker) -> None:
        waiting = run.task_id in self._followers
        try:
            await run.start(before, durable=send.stream or send.return_immediately or waiting)
        except OSError as error:
            log.warning("task_not_stored", taskId=run.task_id, error=repr(error))
            asker.refuse(not_stored(error))
            return
        self._attach(run, send, asker)
        run.adopt(self._followers.pop(run.task_id, []))
        prompt = self._workspace.assistant.prompt(send.caller, send.message, run.task_id, send.accepted_output_modes)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._drive, run, prompt)
            flushing = False
            while True:
                if run.followed and not flushing:
                    flushing = True
                    nursery.start_soon(run.flush_regularly)
                message = await self.mailbox.get()
                if isinstance(message, RunEnded):
                    break
                self.handled += 1
                try:
                    await self._handle_busy(message, run)
                except BaseException:
                    refuse(message, A2AError(ErrorKind.UNAVAILABLE))
                    raise
            nursery.cancel_scope.cancel()

    async def _drive(self, run: TaskRun, prompt: Prompt) -> None:
        structlog.contextvars.bind_contextvars(taskId=run.task_id)
        await run.execute(self._open_agent, prompt)
        self.mailbox.put_own(RunEnded())

    async def _open_agent(self) -> AgentSession:
        if self._agent is None:
            self._agent = await self._workspace.assistant.open(self.key[1], self.key[2], self._held)
        return self._agent

    async def _rejoin(self, run: TaskRun, message: Start) -> None:
        """Attach a caller whose first call was lost to the run it started."""
        send, asker = message.send, message.asker
        if send.stream or send.return_immediately:
            try:
                await run.make_durable()
            except OSError as error:
                asker.refuse(not_stored(error))
                return
        if run.over:
            self._late.append(message)
        else:
            self._attach(run, send, asker)

    def _attach(self, run: TaskRun, send: Send, asker: Asker) -> None:
        """Give the caller what it asked for: a stream, the task at once, or the task at the end."""
        if send.stream:
            stream = asker.open_stream(until_interrupted=True)
            if send.again:
                run.follow(stream)
            else:
                run.follow_from_start(stream)
        elif send.return_immediately:
            asker.answer(rendering.task_result(run.record.task, send.history_length))
            run.mark_shown()
            return
        else:
            run.wait(asker, send.history_length)
        if send.cancel_on_disconnect:
            asker.on_leave = run.cancel
            if asker.left:
                run.cancel()

    async def _end_unstarted(self, record: TaskRecord, send: Send, asker: Asker) -> None:
        """Store a task that ends without a run, and answer with it."""
        try:
            await self._write(record)
        except A2AError as error:
            asker.refuse(error)
            return
        self._show(record, send, asker)
        self._tell_followers(record)

    def _show(self, record: TaskRecord, send: Send, asker: Asker) -> None:
        """Answer a send with a task that has no live run."""
        if not send.stream:
            asker.answer(rendering.task_result(record.task, send.history_length))
            return
        stream = asker.open_stream(until_interrupted=True)
        stream.offer(record.version, rendering.task_result(record.task))
        stream.close()

    # -- tasks without a live run ----------------------------------------------------------------------------------

    def _own(self, task_id: str) -> TaskRecord | None:
        record = self._workspace.tasks.read(task_id)
        return record if record is not None and record.caller == self.key[1] else None

    async def _settled(self, task_id: str, finished: A2AError | None = None) -> TaskRecord:
        """Read a task that has no live run; one that is shown as active is settled first.

        Raises:
            A2AError: no such task of this caller, it could not be stored, or `finished`: it is over.
        """
        record = self._own(task_id)
        if record is None:
            raise A2AError(ErrorKind.TASK_NOT_FOUND)
        if is_active(record.task.status.state):
            record = records.with_status(record, TaskState.FAILED, RESTARTED, self._ground.clock.wall())
            await self._write(record)
        if finished is not None and is_terminal(record.task.status.state):
            raise finished
        return record

    async def _open_task(self, task_id: str, finished: A2AError) -> TaskRecord:
        """Read a task that waits for its caller; raises as `_settled`. A finished one is not read again for it."""
        facts = self._workspace.tasks.facts(task_id)
        if facts is not None and facts.caller == self.key[1] and is_terminal(facts.state):
            raise finished
        return await self._settled(task_id, finished)

    async def _write(self, record: TaskRecord) -> None:
        try:
            await self._ground.disk.submit(self._workspace.tasks.replace_op(record, durable=True))
        except OSError as error:
            raise not_stored(error) from error

    async def _cancel(self, message: Cancel) -> None:
        try:
            record = await self._open_task(message.task_id, A2AError(ErrorKind.TASK_NOT_CANCELABLE))
            record = records.with_status(record, TaskState.CANCELED, "", self._ground.clock.wall())
            await self._write(record)
        except A2AError as error:
            message.asker.refuse(error)
            return
        message.asker.answer(rendering.task_json(record.task))
        self._tell_followers(record)

    def _tell_followers(self, record: TaskRecord) -> None:
        """Tell those who follow a waiting task that it is over."""
        for follower in self._followers.pop(record.task.id, []):
            follower.offer(record.version, rendering.status_event(record.task))
            follower.close()

    async def _follow(self, message: Follow) -> None:
        try:
            finished = A2AError(ErrorKind.UNSUPPORTED_OPERATION, "The task is finished; there is nothing to follow")
            record = await self._open_task(message.task_id, finished)
        except A2AError as error:
            message.asker.refuse(error)
            return
        stream = message.asker.open_stream(until_interrupted=False)
        stream.offer(record.version, rendering.task_result(record.task))
        present = [follower for follower in self._followers.get(message.task_id, ()) if not follower.ended]
        self._followers[message.task_id] = [*present, stream]

    async def _follow_run(self, run: TaskRun, asker: Asker) -> None:
        try:
            await run.make_durable()
        except OSError as error:
            asker.refuse(not_stored(error))
            return
        if run.over:
            self._late.append(Follow(run.task_id, asker))
        else:
            run.follow(asker.open_stream(until_interrupted=False))

    async def _repair(self, message: Repair) -> None:
        try:
            await self._settled(message.task_id)
        except A2AError as error:
            message.asker.refuse(error)
            return
        message.asker.answer(b"null")
