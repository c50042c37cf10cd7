"""The A2A 1.0.1 data model as msgspec structs (source: `specification/a2a.proto` of A2A 1.0.1, spec §4).

JSON names are camelCase, enums go by name, an unset optional field is left out. Free-form JSON (`data`, `metadata`,
`params`) is kept as `msgspec.Raw`, byte for byte as it came in, so that a number stays the number it was. Unknown
members are ignored on decoding (§5.7). These structs say what is *well-formed*; what is *valid* (required content,
ranges, grammars) is checked in `volcanic.protocol.validate`.
"""

from __future__ import annotations

import enum

import msgspec
from msgspec import UNSET, Raw, UnsetType


class TaskState(enum.StrEnum):
    """Where a task stands (proto `TaskState`)."""

    UNSPECIFIED = "TASK_STATE_UNSPECIFIED"
    SUBMITTED = "TASK_STATE_SUBMITTED"
    WORKING = "TASK_STATE_WORKING"
    COMPLETED = "TASK_STATE_COMPLETED"
    FAILED = "TASK_STATE_FAILED"
    CANCELED = "TASK_STATE_CANCELED"
    INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"
    REJECTED = "TASK_STATE_REJECTED"
    AUTH_REQUIRED = "TASK_STATE_AUTH_REQUIRED"


class Role(enum.StrEnum):
    """Who speaks (proto `Role`)."""

    UNSPECIFIED = "ROLE_UNSPECIFIED"
    USER = "ROLE_USER"
    AGENT = "ROLE_AGENT"


class Wire(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """Base of every wire struct: camelCase names, defaults left out."""


class Part(Wire, kw_only=True):
    """One piece of content: exactly one of `text`, `raw` (base64), `url`, `data` is set (proto oneof `content`)."""

    text: str | UnsetType = UNSET
    raw: str | UnsetType = UNSET
    url: str | UnsetType = UNSET
    data: Raw | UnsetType = UNSET
    metadata: Raw | UnsetType = UNSET
    filename: str | UnsetType = UNSET
    media_type: str | UnsetType = UNSET


class Message(Wire, kw_only=True):
    """One turn of a conversation."""

    message_id: str
    context_id: str | UnsetType = UNSET
    task_id: str | UnsetType = UNSET
    role: Role
    parts: list[Part]
    metadata: Raw | UnsetType = UNSET
    extensions: list[str] = []
    reference_task_ids: list[str] = []


class TaskStatus(Wire, kw_only=True):
    """A state, when it was reached (RFC 3339, UTC, milliseconds, `Z`), and what the agent says about it."""

    state: TaskState
    message: Message | UnsetType = UNSET
    timestamp: str | UnsetType = UNSET


class Artifact(Wire, kw_only=True):
    """A result of a task."""

    artifact_id: str
    name: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    parts: list[Part]
    metadata: Raw | UnsetType = UNSET
    extensions: list[str] = []


class Task(Wire, kw_only=True):
    """The unit of work."""

    id: str
    context_id: str | UnsetType = UNSET
    status: TaskStatus
    artifacts: list[Artifact] = []
    history: list[Message] = []
    metadata: Raw | UnsetType = UNSET


class TaskStatusUpdateEvent(Wire, kw_only=True):
    """A task reached a state."""

    task_id: str
    context_id: str
    status: TaskStatus
    metadata: Raw | UnsetType = UNSET


class TaskArtifactUpdateEvent(Wire, kw_only=True):
    """An artifact, or a piece of one, came into being."""

    task_id: str
    context_id: str
    artifact: Artifact
    append: bool = False
    last_chunk: bool = False
    metadata: Raw | UnsetType = UNSET


class AuthenticationInfo(Wire, kw_only=True):
    """What a webhook wants in its `Authorization` header."""

    scheme: str
    credentials: str | UnsetType = UNSET


class TaskPushNotificationConfig(Wire, kw_only=True):
    """A webhook registered for a task; the key is (taskId, id)."""

    tenant: str | UnsetType = UNSET
    id: str | UnsetType = UNSET
    task_id: str | UnsetType = UNSET
    url: str
    token: str | UnsetType = UNSET
    authentication: AuthenticationInfo | UnsetType = UNSET


class SendMessageConfiguration(Wire, kw_only=True):
    """How a caller wants its answer."""

    accepted_output_modes: list[str] = []
    task_push_notification_config: TaskPushNotificationConfig | UnsetType = UNSET
    history_length: int | UnsetType = UNSET
    return_immediately: bool = False


class SendMessageRequest(Wire, kw_only=True):
    """Parameters of SendMessage and SendStreamingMessage."""

    tenant: str | UnsetType = UNSET
    message: Message
    configuration: SendMessageConfiguration | UnsetType = UNSET
    metadata: Raw | UnsetType = UNSET


class GetTaskRequest(Wire, kw_only=True):
    """Parameters of GetTask."""

    tenant: str | UnsetType = UNSET
    id: str
    history_length: int | UnsetType = UNSET


class ListTasksRequest(Wire, kw_only=True):
    """Parameters of ListTasks."""

    tenant: str | UnsetType = UNSET
    context_id: str | UnsetType = UNSET
    status: TaskState | UnsetType = UNSET
    page_size: int | UnsetType = UNSET
    page_token: str | UnsetType = UNSET
    history_length: int | UnsetType = UNSET
    status_timestamp_after: str | UnsetType = UNSET
    include_artifacts: bool = False


class CancelTaskRequest(Wire, kw_only=True):
    """Parameters of CancelTask."""

    tenant: str | UnsetType = UNSET
    id: str
    metadata: Raw | UnsetType = UNSET


class SubscribeToTaskRequest(Wire, kw_only=True):
    """Parameters of SubscribeToTask."""

    tenant: str | UnsetType = UNSET
    id: str


class GetTaskPushNotificationConfigRequest(Wire, kw_only=True):
    """Parameters of GetTaskPushNotificationConfig."""

    tenant: str | UnsetType = UNSET
    task_id: str
    id: str


class DeleteTaskPushNotificationConfigRequest(Wire, kw_only=True):
    """Parameters of DeleteTaskPushNotificationConfig."""

    tenant: str | UnsetType = UNSET
    task_id: str
    id: str


class ListTaskPushNotificationConfigsRequest(Wire, kw_only=True):
    """Parameters of ListTaskPushNotificationConfigs."""

    tenant: str | UnsetType = UNSET
    task_id: str
    page_size: int | UnsetType = UNSET
    page_token: str | UnsetType = UNSET


class GetExtendedAgentCardRequest(Wire, kw_only=True):
    """Parameters of GetExtendedAgentCard."""

    tenant: str | UnsetType = UNSET


class SendMessageResponse(Wire, kw_only=True):
    """Exactly one of `task` and `message`."""

    task: Task | UnsetType = UNSET
    message: Message | UnsetType = UNSET


class StreamResponse(Wire, kw_only=True):
    """One event of a stream or push: exactly one member is set (spec §3.2.3)."""

    task: Task | UnsetType = UNSET
    message: Message | UnsetType = UNSET
    status_update: TaskStatusUpdateEvent | UnsetType = UNSET
    artifact_update: TaskArtifactUpdateEvent | UnsetType = UNSET


class ListTasksResponse(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """A page of tasks; all four members are always present (spec §3.1.4)."""

    tasks: list[Task]
    next_page_token: str
    page_size: int
    total_size: int


class ListTaskPushNotificationConfigsResponse(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """The webhooks of a task."""

    configs: list[TaskPushNotificationConfig]
    next_page_token: str = ""


def encode(value: msgspec.Struct) -> bytes:
    """Return the value as compact JSON."""
    return msgspec.json.encode(value)
