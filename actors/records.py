"""New task records out of old ones: what changes when a run starts, reports, or ends. Pure; nothing is written here."""

from __future__ import annotations

import uuid

import msgspec
from msgspec import UNSET

from volcanic.protocol.states import allows
from volcanic.protocol.timestamps import format_ms
from volcanic.protocol.types import Message, Part, Role, Task, TaskState, TaskStatus
from volcanic.storage.tasks import RunStamp, TaskRecord

TASK_BYTES = 48 * 1024 * 1024
"""What a task may weigh, as JSON, for another message to be added: it has to fit a frame of the Owner API whole."""

TOO_LARGE = "The task has grown too large to go on; start a new one in the same context"


def agent_message(task: Task, text: str) -> Message:
    """Return a message of the agent about this task."""
    return Message(
        message_id=uuid.uuid4().hex,
        context_id=task.context_id,
        task_id=task.id,
        role=Role.AGENT,
        parts=[Part(text=text)],
    )


def direct_message(context_id: str, text: str) -> Message:
    """Return a message that is the whole answer, without a task."""
    return Message(message_id=uuid.uuid4().hex, context_id=context_id, role=Role.AGENT, parts=[Part(text=text)])


def placed(message: Message, task_id: str, context_id: str) -> Message:
    """Return a caller's message as the history keeps it: with the ids of where it ended up."""
    return msgspec.structs.replace(message, task_id=task_id, context_id=context_id)


def weight(task: Task, message: Message) -> int:
    """Return how many bytes a task would have with one more message, about: what is large in it is content."""
    parts = [part for each in (*task.history, message) for part in each.parts]
    parts += [part for artifact in task.artifacts for part in artifact.parts]
    return sum(_part_weight(part) for part in parts)


def _part_weight(part: Part) -> int:
    values = (part.text, part.raw, part.url, part.data, part.metadata)
    return 64 + sum(
        len(value) if isinstance(value, str) else len(bytes(value)) for value in values if value is not UNSET
    )


def fresh(  # noqa: PLR0917 - each is one member of the record
    caller: str, op: str, task_id: str, context_id: str, message: Message, stamp: RunStamp, now: float
) -> TaskRecord:
    """Return the record of a new task whose run is about to start."""
    moment = format_ms(now)
    return TaskRecord(
        caller=caller,
        op=op,
        version=1,
        run=stamp,
        created=moment,
        updated=moment,
        task=Task(
            id=task_id,
            context_id=context_id,
            status=TaskStatus(state=TaskState.WORKING, timestamp=moment),
            history=[placed(message, task_id, context_id)],
        ),
    )


def continued(record: TaskRecord, op: str, message: Message, stamp: RunStamp, now: float) -> TaskRecord:
    """Return the record of a task that waited for its caller and goes on with this message.

    The question it waited with moves from the status into the history, before the answer to it.
    """
    task = record.task
    context_id = task.context_id if task.context_id is not UNSET else ""
    question = [task.status.message] if task.status.message is not UNSET else []
    history = [*task.history, *question, placed(message, task.id, context_id)]
    moment = format_ms(now)
    started = msgspec.structs.replace(
        task, history=history, status=TaskStatus(state=TaskState.WORKING, timestamp=moment)
    )
    return msgspec.structs.replace(record, op=op, version=record.version + 1, run=stamp, updated=moment, task=started)


def advanced(record: TaskRecord, task: Task, now: float) -> TaskRecord:
    """Return the record with a changed task, one version on."""
    return msgspec.structs.replace(record, version=record.version + 1, updated=format_ms(now), task=task)


def with_status(record: TaskRecord, state: TaskState, text: str, now: float) -> TaskRecord:
    """Return the record in another state, one version on; `text` (if any) is the status message."""
    assert allows(record.task.status.state, state), f"{record.task.status.state} to {state}"
    message = agent_message(record.task, text) if text else UNSET
    status = TaskStatus(state=state, message=message, timestamp=format_ms(now))
    return advanced(record, msgspec.structs.replace(record.task, status=status), now)
