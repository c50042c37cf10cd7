"""One run of one task: from the stored start to the stored end.

Order is the promise: every state is on disk before it is answered, streamed or pushed. The run holds the task as it was
last *stored* (`record`); a change is built beside it, written, and only then takes its place and is told.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Awaitable, Callable

import msgspec
import structlog
import trio

from actors import records, rendering
from actors.artifacts import merge, with_response
from actors.asking import Asker, Ground, HeldWrites, Workspace
from actors.subscription import Subscription
from actors.telling import Telling
from volcanic.agent import events
from volcanic.agent.session import AgentSession, Prompt
from volcanic.extension import VerdictState
from volcanic.protocol.errors import A2AError, ErrorKind
from volcanic.protocol.types import Artifact, Message, TaskState
from volcanic.storage.disk import Op
from volcanic.storage.live import LiveRun
from volcanic.storage.tasks import TaskRecord

RESTARTED = "server restarted"
UNEXPECTED = "The run failed unexpectedly."

log = structlog.get_logger(__name__)


def not_stored(error: OSError) -> A2AError:
    """Return what a caller is told when the disk refused: the plain reason, without a path."""
    reason = os.strerror(error.errno) if error.errno else "the disk did not answer"
    return A2AError(ErrorKind.INTERNAL, f"The task could not be stored: {reason}")


class Waiter:
    """A caller who waits for the run's end: a blocked sender, or one who wants the task canceled."""

    __slots__ = ("asker", "cancel", "history_length")

    def __init__(self, asker: Asker, history_length: int | None = None, *, cancel: bool = False) -> None:
        self.asker = asker
        self.history_length = history_length
        self.cancel = cancel


class TaskRun:
    """A run. Its session starts it, holds it and learns of its end; nobody else writes its task meanwhile."""

    def __init__(self, ground: Ground, workspace: Workspace, held: HeldWrites, record: TaskRecord) -> None:
        self.ground = ground
        self.workspace = workspace
        self.held = held
        self.record = record
        self.staying: list[Subscription] = []
        """After the end: the followers who wait for the task's next run."""
        self._telling = Telling(record.task, record.version)
        self._waiters: list[Waiter] = []
        self._scope = trio.CancelScope()
        self._cancel_wanted = False
        self._settling = False
        self._over = False
        self._durable = 0
        self._writing = False
        self._direct: str | None = None
        self._log = log.bind(caller=record.caller, contextId=record.task.context_id, taskId=record.task.id)

    @property
    def followed(self) -> bool:
        """Whether anybody follows it."""
        return len(self._telling) > 0

    @property
    def over(self) -> bool:
        """Whether the end is stored (or given up) and told."""
        return self._over

    @property
    def settling(self) -> bool:
        """Whether its end is being stored or is stored: nothing changes how it ends any more."""
        return self._settling

    @property
    def task_id(self) -> str:
        """The task's id."""
        return self.record.task.id

    # -- what others ask of it -------------------------------------------------------------------------------------

    def wait(self, asker: Asker, history_length: int | None) -> None:
        """Answer `asker` with the task when the run has ended; not for a run that is over."""
        self._waiters.append(Waiter(asker, history_length))

    def cancel(self, asker: Asker | None = None) -> None:
        """End the run as canceled; the asker gets what came of it. Without effect once it is `settling`."""
        if asker is not None:
            self._waiters.append(Waiter(asker, cancel=True))
        if not self._settling:
            self._cancel_wanted = True
            self._scope.cancel()

    def interrupt(self) -> None:
        """End the run as one that its slot could not finish; ignored once its end is being stored."""
        if not self._settling:
            self._scope.cancel()

    def follow_from_start(self, subscription: Subscription) -> None:
        """Register the stream that started this run."""
        self._telling.follow_from_start(subscription)

    def adopt(self, followers: list[Subscription]) -> None:
        """Take over who followed the task while it waited for input; they are told that it works again."""
        self._telling.adopt(followers)

    def follow(self, subscription: Subscription) -> None:
        """Give the snapshot and register, in one step. What it shows must be durable already (`make_durable`)."""
        self._telling.follow(subscription)

    def mark_shown(self) -> None:
        """Note that a caller has seen the task: from here on it stays a task."""
        self._telling.shown = True

    def durable(self) -> bool:
        """Whether the task as it stands in `record` would survive a power loss."""
        return self._durable >= self.record.version

    async def make_durable(self) -> None:
        """Have what is about to be shown on disk for good; a blocking caller's run start alone is not.

        A run that is `over` afterwards may have ended without a stored task: look at the file then.

        Raises:
            OSError: the disk refused.
        """
        self._telling.shown = True
        while not (self.durable() or self._over):
            if self._writing:
                # A newer state is on its way; what is written now would come after it, and take its place.
                await self.ground.disk.submit()
                continue
            record = self.record
            await self.ground.disk.submit(*self.held.take(), self.workspace.tasks.replace_op(record, durable=True))
            self._durable = max(self._durable, record.version)

    async def ended(self) -> None:
        """Wait until a run that is `settling` is over."""
        while not self._over:
            await self.ground.disk.submit()

    # -- its life --------------------------------------------------------------------------------------------------

    async def start(self, before: TaskRecord | None, *, durable: bool) -> None:
        """Have the task written as `working` and the run into the live log, before the model runs.

        A start that nobody is shown yet goes with the first line of the transcript, which the model waits for anyway.
        `before` is the task as it waited for this run; None when there was none.

        Raises:
            OSError: the disk refused; nothing was started.
        """
        run = LiveRun(
            task_id=self.task_id,
            workspace=self.workspace.path,
            caller=self.record.caller,
            op=self.record.op,
            boot=self.ground.stamp.boot,
            incarnation=self.ground.stamp.incarnation,
        )
        self.held.hold(self.workspace.tasks.replace_op(self.record, durable=durable), self.ground.live.start_op(run))
        if durable:
            try:
                await self.ground.disk.submit(*self.held.take())
            except OSError:
                await self._take_back(before)  # noqa: ASYNC120 - a stop that comes now is the greater news
                raise
            self._durable = self.record.version

    async def _take_back(self, before: TaskRecord | None) -> None:
        """A start that failed may have left a task without a run where one waited, or where there was none."""
        files = self.workspace.tasks
        back = files.remove_op(self.task_id) if before is None else files.replace_op(before, durable=True)
        try:
            await self.ground.disk.submit(back, self.ground.live.end_op(self.task_id))
        except OSError as error:
            # Its next reader settles it then.
            self._log.warning("start_not_taken_back", error=repr(error))

    async def execute(self, open_agent: Callable[[], Awaitable[AgentSession]], prompt: Prompt) -> None:
        """Run the assistant on the prompt and settle the task; returns when the end is stored and told.

        Interrupted, or cancelled from outside, it settles the task as failed, "server restarted".
        """
        outcome: events.Outcome | None = None
        try:
            with self._scope:
                agent = await open_agent()
                outcome = await agent.run(prompt, self._on_event)
        except OSError as error:
            self._log.warning("run_failed", error=self.workspace.assistant.redact(repr(error)))
            outcome = events.Outcome(VerdictState.FAILED, not_stored(error).message)
        except Exception as error:  # noqa: BLE001 - a crash of the assistant is this task's end, and nothing else's
            self._log.error("run_failed", error=self.workspace.assistant.redact(repr(error)), exc_info=True)
            outcome = events.Outcome(VerdictState.FAILED, UNEXPECTED)
        finally:
            self._settling = True
            with trio.CancelScope(shield=True, deadline=trio.current_time() + self.ground.settings.settle_seconds):
                await self._settle(outcome)
            if not self._over:
                self._give_up(A2AError(ErrorKind.INTERNAL, "The task could not be stored: the disk did not answer"))

    def abandon(self) -> None:
        """Tell whoever waits for a run that its session failed to carry on; without effect on one that is over."""
        if not self._over:
            self._give_up(A2AError(ErrorKind.UNAVAILABLE))

    async def flush_regularly(self) -> None:
        """Send followers the text that waits, at the settings' interval, for ever; worth a task only with followers."""
        while True:
            await trio.sleep(self.ground.settings.flush_seconds)
            self._telling.show()
            self._telling.flush()

    async def _on_event(self, event: events.AgentEvent) -> None:
        match event:
            case events.TextDelta(text=text):
                self._telling.add_text(text)
            case events.MessageStart():
                self._telling.restart_text()
            case events.StatusNote(text=text):
                said = self.workspace.assistant.redact(text)
                await self._store(records.with_status(self.record, TaskState.WORKING, said, self.ground.clock.wall()))
                self._telling.send_status()
            case events.ArtifactNote():
                await self._on_artifact(event)
            case events.DirectMessage(text=text):
                self._direct = text
            case _:
                pass
        if lagging := self._telling.lagging():
            await self._pace(lagging)

    async def _pace(self, lagging: list[Subscription]) -> None:
        """Give followers a moment to catch up: no burst, however long, costs one who reads its stream."""
        with trio.move_on_after(self.ground.settings.pace_seconds):  # noqa: ASYNC912 - it is entered only with followers to wait for
            for follower in lagging:
                await follower.caught_up()
        now = trio.current_time()
        for follower in lagging:
            follower.given_up = follower.stalled(now, self.ground.settings.patience_seconds)

    async def _on_artifact(self, note: events.ArtifactNote) -> None:
        artifact = self._decode_artifact(note)
        append = note.append and self._telling.knows(artifact.artifact_id)
        version = 0
        if note.last_chunk:
            merged = merge(self._telling.artifacts, artifact, append=append)
            task = msgspec.structs.replace(self.record.task, artifacts=merged)
            await self._store(records.advanced(self.record, task, self.ground.clock.wall()))
            version = self.record.version
        self._telling.add_artifact(version, artifact, append=append, last_chunk=note.last_chunk)

    def _decode_artifact(self, note: events.ArtifactNote) -> Artifact:
        """Decode an artifact; one without an id is the artifact of its name, or a new one."""
        fields = msgspec.json.decode(note.artifact, type=dict[str, msgspec.Raw])
        if "artifactId" not in fields:
            name = msgspec.json.decode(fields["name"], type=str) if "name" in fields else ""
            same = next((old.artifact_id for old in self._telling.artifacts if name and old.name == name), None)
            fields["artifactId"] = msgspec.Raw(msgspec.json.encode(same or name or uuid.uuid4().hex))
        return msgspec.json.decode(msgspec.json.encode(fields), type=Artifact)

    async def _store(self, record: TaskRecord) -> None:
        if self.followed:
            # Who started the run sees it as it was until now; the new state comes as an event of its own.
            self._telling.show()
        await self._write(self.workspace.tasks.replace_op(record, durable=True))
        self._took(record)

    async def _write(self, *ops: Op) -> None:
        """Do what is held and then `ops`, which hold a state newer than `record`."""
        self._writing = True
        try:
            await self.ground.disk.submit(*self.held.take(), *ops)
        finally:
            self._writing = False

    def _took(self, record: TaskRecord) -> None:
        self.record = record
        self._durable = record.version
        self._telling.task, self._telling.version = record.task, record.version

    # -- its end ---------------------------------------------------------------------------------------------------

    async def _settle(self, outcome: events.Outcome | None) -> None:
        if self._direct is not None and not self._telling.shown and outcome is not None:
            await self._settle_as_message(self._direct)
            return
        # Who started the run sees it as it was until now, before anything of its end.
        self._telling.show()
        final = self._final(outcome)
        end = self.ground.live.end_op(self.task_id)
        try:
            await self._write(self.workspace.tasks.replace_op(final, durable=True), end)
        except OSError as error:
            # The result may be what did not fit: the smaller record of the failure may still.
            self._log.warning("task_not_stored", error=repr(error))
            reason = not_stored(error)
            final = records.with_status(self.record, TaskState.FAILED, reason.message, self.ground.clock.wall())
            try:
                await self._write(self.workspace.tasks.replace_op(final, durable=True), end)
            except OSError:
                self._give_up(reason)
                return
            outcome = None
        self._took(final)
        self.staying = self._telling.end(self._response(outcome))
        self._answer_waiters()
        if self.ground.live.overgrown():
            try:
                await self.ground.disk.submit(self.ground.live.compact_op())
            except OSError as error:
                self._log.warning("live_log_not_compacted", error=repr(error))

    def _final(self, outcome: events.Outcome | None) -> TaskRecord:
        now = self.ground.clock.wall()
        if outcome is None:
            if self._cancel_wanted:
                return records.with_status(self._with_artifacts(""), TaskState.CANCELED, "", now)
            return records.with_status(self._with_artifacts(""), TaskState.FAILED, RESTARTED, now)
        state = TaskState(outcome.state.value)
        response = self._response(outcome)
        if self._cancel_wanted and state in {TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED}:
            return records.with_status(self._with_artifacts(response), TaskState.CANCELED, "", now)
        # A completed task's answer is its artifact; only what is said beside it stands in the status.
        said = outcome.text if state is not TaskState.COMPLETED or outcome.text != outcome.response else ""
        text = self.workspace.assistant.redact(said) if said else ""
        return records.with_status(self._with_artifacts(response), state, text, now)

    def _response(self, outcome: events.Outcome | None) -> str:
        """Return the final text; a plain message that came too late to be the whole answer counts as such."""
        if outcome is None:
            return ""
        return outcome.response or self._direct or ""

    def _with_artifacts(self, response: str) -> TaskRecord:
        kept = self._telling.artifacts
        task = msgspec.structs.replace(self.record.task, artifacts=with_response(kept, response) if response else kept)
        return msgspec.structs.replace(self.record, task=task)

    async def _settle_as_message(self, text: str) -> None:
        """Answer without a task: the start that was stored, and that nobody has seen, goes."""
        context_id = self.record.task.context_id
        message = records.direct_message(context_id if isinstance(context_id, str) else "", text)
        try:
            await self._write(self.workspace.tasks.remove_op(self.task_id), self.ground.live.end_op(self.task_id))
        except OSError as error:
            self._give_up(not_stored(error))
            return
        self._over = True
        self._telling.end_with_message(message)
        self._answer_with_message(message)

    def _answer_with_message(self, message: Message) -> None:
        for waiter in self._waiters:
            if waiter.cancel:
                waiter.asker.refuse(A2AError(ErrorKind.TASK_NOT_FOUND))
            else:
                waiter.asker.answer(rendering.message_result(message))

    def _answer_waiters(self) -> None:
        self._over = True
        task = self.record.task
        for waiter in self._waiters:
            if not waiter.cancel:
                waiter.asker.answer(rendering.task_result(task, waiter.history_length))
            elif task.status.state is TaskState.CANCELED:
                waiter.asker.answer(rendering.task_json(task))
            else:
                waiter.asker.refuse(A2AError(ErrorKind.TASK_NOT_CANCELABLE))

    def _give_up(self, error: A2AError) -> None:
        """Tell everybody that the end could not be stored; the next reader repairs the task."""
        self._over = True
        self._telling.drop("lost")
        for waiter in self._waiters:
            waiter.asker.refuse(error)
