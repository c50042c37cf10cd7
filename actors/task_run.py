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
from actors.artifacts import with_response
from actors.asking import Asker, Ground, HeldWrites, Workspace
from actors.subscription import Subscription
from actors.telling import Telling
from volcanic.agent import events
from volcanic.agent.session import AgentSession, Prompt
from volcanic.extension import VerdictState
from volcanic.protocol.errors import A2AError, ErrorKind
from volcanic.protocol.types import Artifact, Message, TaskState
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
        self._direct: str | None = None
        self._log = log.bind(caller=record.caller, contextId=record.task.context_id, taskId=record.task.id)

    @property
    def over(self) -> bool:
        """Whether the end is stored (or given up) and told."""
        return self._over

    @property
    def task_id(self) -> str:
        """The task's id."""
        return self.record.task.id

    # -- what others ask of it -------------------------------------------------------------------------------------

    def wait(self, asker: Asker, history_length: int | None) -> None:
        """Answer `asker` with the task when the run has ended."""
        self._waiters.append(Waiter(asker, history_length))

    def cancel(self, asker: Asker | None = None) -> None:
        """End the run as canceled, unless its end is being stored already; the asker gets what came of it."""
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

        Raises:
            OSError: the disk refused.
        """
        self._telling.shown = True
        while not self.durable():
            record = self.record
            await self.ground.disk.submit(*self.held.take(), self.workspace.tasks.replace_op(record, durable=True))
            self._durable = max(self._durable, record.version)

    # -- its life --------------------------------------------------------------------------------------------------

    async def start(self, *, durable: bool) -> None:
        """Have the task written as `working` and the run into the live log, before the model runs.

        A start that nobody is shown yet goes with the first line of the transcript, which the model waits for anyway.

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
            await self.ground.disk.submit(*self.held.take())
            self._durable = self.record.version

    async def execute(self, open_agent: Callable[[], Awaitable[AgentSession]], prompt: Prompt) -> None:
        """Run the assistant on the prompt and settle the task; returns when the end is stored and told.

        Interrupted, or cancelled from outside, it settles the task as failed, "server restarted".
        """
        outcome: events.Outcome | None = None
        try:
            with self._scope:
                outcome = await self._converse(await open_agent(), prompt)
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

    async def _converse(self, agent: AgentSession, prompt: Prompt) -> events.Outcome:
        async with trio.open_nursery() as nursery:
            if len(self._telling):
                nursery.start_soon(self._flush_regularly)
            outcome = await agent.run(prompt, self._on_event)
            nursery.cancel_scope.cancel()
        return outcome

    async def _flush_regularly(self) -> None:
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
                await self._store(records.with_status(self.record, TaskState.WORKING, text, self.ground.clock.wall()))
                self._telling.send_status()
            case events.ArtifactNote():
                await self._on_artifact(event)
            case events.DirectMessage(text=text) if not self._telling.shown:
                self._direct = text
            case events.DirectMessage(text=text):
                self._telling.add_text(text)
            case _:
                pass

    async def _on_artifact(self, note: events.ArtifactNote) -> None:
        artifact = self._decode_artifact(note)
        append = self._telling.add_artifact(artifact, append=note.append)
        version = 0
        if note.last_chunk:
            task = msgspec.structs.replace(self.record.task, artifacts=self._telling.artifacts)
            await self._store(records.advanced(self.record, task, self.ground.clock.wall()))
            version = self.record.version
        self._telling.send_artifact(version, artifact, append=append, last_chunk=note.last_chunk)

    def _decode_artifact(self, note: events.ArtifactNote) -> Artifact:
        """Decode an artifact; one without an id is the artifact of its name, or a new one."""
        fields = msgspec.json.decode(note.artifact, type=dict[str, msgspec.Raw])
        if "artifactId" not in fields:
            name = msgspec.json.decode(fields["name"], type=str) if "name" in fields else ""
            same = next((old.artifact_id for old in self._telling.artifacts if name and old.name == name), None)
            fields["artifactId"] = msgspec.Raw(msgspec.json.encode(same or name or uuid.uuid4().hex))
        return msgspec.json.decode(msgspec.json.encode(fields), type=Artifact)

    async def _store(self, record: TaskRecord) -> None:
        await self.ground.disk.submit(*self.held.take(), self.workspace.tasks.replace_op(record, durable=True))
        self._took(record)

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
            await self.ground.disk.submit(*self.held.take(), self.workspace.tasks.replace_op(final, durable=True), end)
        except OSError as error:
            # The result may be what did not fit: the smaller record of the failure may still.
            self._log.warning("task_not_stored", error=repr(error))
            reason = not_stored(error)
            final = records.with_status(self.record, TaskState.FAILED, reason.message, self.ground.clock.wall())
            try:
                await self.ground.disk.submit(self.workspace.tasks.replace_op(final, durable=True), end)
            except OSError:
                self._give_up(reason)
                return
            outcome = None
        self._took(final)
        self.staying = self._telling.end(outcome.response if outcome is not None else "")
        self._answer_waiters()

    def _final(self, outcome: events.Outcome | None) -> TaskRecord:
        now = self.ground.clock.wall()
        if outcome is None:
            if self._cancel_wanted:
                return records.with_status(self._with_artifacts(""), TaskState.CANCELED, "", now)
            return records.with_status(self._with_artifacts(""), TaskState.FAILED, RESTARTED, now)
        state = TaskState(outcome.state.value)
        if self._cancel_wanted and state in {TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED}:
            return records.with_status(self._with_artifacts(outcome.response), TaskState.CANCELED, "", now)
        text = "" if state is TaskState.COMPLETED else self.workspace.assistant.redact(outcome.text)
        return records.with_status(self._with_artifacts(outcome.response), state, text, now)

    def _with_artifacts(self, response: str) -> TaskRecord:
        kept = self._telling.artifacts
        task = msgspec.structs.replace(self.record.task, artifacts=with_response(kept, response) if response else kept)
        return msgspec.structs.replace(self.record, task=task)

    async def _settle_as_message(self, text: str) -> None:
        """Answer without a task: the start that was stored, and that nobody has seen, goes."""
        context_id = self.record.task.context_id
        message = records.direct_message(context_id if isinstance(context_id, str) else "", text)
        try:
            await self.ground.disk.submit(
                *self.held.take(), self.workspace.tasks.remove_op(self.task_id), self.ground.live.end_op(self.task_id)
            )
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
