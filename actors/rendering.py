"""What the owner shows of a task, as JSON: results, snapshots, stream events. Everything here works on copies."""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from volcanic.protocol.types import (
    Artifact,
    Message,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatusUpdateEvent,
)

_encoder = msgspec.json.Encoder()


def trimmed(task: Task, history_length: int | None) -> Task:
    """Return the task with at most `history_length` of its newest messages (spec §3.2.4); None leaves it whole."""
    if history_length is None or len(task.history) <= history_length:
        return task
    return msgspec.structs.replace(task, history=task.history[-history_length:] if history_length else [])


def task_json(task: Task, history_length: int | None = None) -> bytes:
    """Return a Task."""
    return _encoder.encode(trimmed(task, history_length))


def task_result(task: Task, history_length: int | None = None) -> bytes:
    """Return a SendMessageResponse, which is also a StreamResponse, that holds the task."""
    return b'{"task":' + task_json(task, history_length) + b"}"


def message_result(message: Message) -> bytes:
    """Return a SendMessageResponse, which is also a StreamResponse, that holds the message."""
    return b'{"message":' + _encoder.encode(message) + b"}"


def status_event(task: Task) -> bytes:
    """Return the StreamResponse that tells where the task stands now."""
    context_id = task.context_id if task.context_id is not UNSET else ""
    event = TaskStatusUpdateEvent(task_id=task.id, context_id=context_id, status=task.status)
    return _encoder.encode(StreamResponse(status_update=event))


def artifact_event(task: Task, artifact: Artifact, *, append: bool, last_chunk: bool) -> bytes:
    """Return the StreamResponse that tells of an artifact, or of a piece of one."""
    context_id = task.context_id if task.context_id is not UNSET else ""
    event = TaskArtifactUpdateEvent(
        task_id=task.id, context_id=context_id, artifact=artifact, append=append, last_chunk=last_chunk
    )
    return _encoder.encode(StreamResponse(artifact_update=event))
