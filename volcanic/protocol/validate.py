"""What a well-formed request must satisfy to be valid (spec §3.3.2, §5.7; a2a.md#sessions).

Each check takes the decoded struct, puts it into its one form (an empty optional id is an unset one, a timestamp is in
milliseconds and `Z`) and raises INVALID_PARAMS naming the member at fault. Free-form JSON is only measured, never
changed.
"""

from __future__ import annotations

import binascii
import sys
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from volcanic.protocol import ids, timestamps
from volcanic.protocol.errors import A2AError, invalid_params
from volcanic.protocol.types import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)

DEPTH: Final = 100
"""Levels of nesting that free-form JSON may always have."""

PARTS: Final = 1000
"""The most parts a message may have."""

PAGE_SIZES: Final = range(1, 101)
INT32_MAX: Final = 2**31 - 1

_STACK: Final = 300
_RAW: Final = msgspec.json.Decoder(Raw)
_STANDARD: Final = str.maketrans("-_", "+/")
_GROUP: Final = 4


def send_message(request: SendMessageRequest) -> None:
    """Check a SendMessage or SendStreamingMessage request."""
    if request.tenant is not UNSET:
        _no_tenant(request.tenant)
    _message(request.message)
    if request.configuration is not UNSET:
        _configuration(request.configuration)
    if request.metadata is not UNSET:
        request.metadata = _object(request.metadata, "metadata")


def get_task(request: GetTaskRequest) -> None:
    """Check a GetTask request. Any non-empty id is valid: one that no task can have is simply not found."""
    _no_tenant(request.tenant)
    _required(request.id, "id")
    _history_length(request.history_length, "historyLength")


def list_tasks(request: ListTasksRequest) -> None:
    """Check a ListTasks request; `statusTimestampAfter` becomes the first millisecond that satisfies it."""
    _no_tenant(request.tenant)
    request.context_id = request.context_id or UNSET
    request.page_token = request.page_token or UNSET
    if request.status is TaskState.UNSPECIFIED:
        request.status = UNSET
    if request.page_size is not UNSET and request.page_size not in PAGE_SIZES:
        raise invalid_params("pageSize", "pageSize must be between 1 and 100")
    _history_length(request.history_length, "historyLength")
    if request.status_timestamp_after:
        try:
            request.status_timestamp_after = timestamps.parse(request.status_timestamp_after, round_up=True)
        except ValueError:
            raise invalid_params("statusTimestampAfter", "statusTimestampAfter must be an RFC 3339 timestamp") from None
    else:
        request.status_timestamp_after = UNSET


def cancel_task(request: CancelTaskRequest) -> None:
    """Check a CancelTask request."""
    _no_tenant(request.tenant)
    _required(request.id, "id")
    if request.metadata is not UNSET:
        request.metadata = _object(request.metadata, "metadata")


def subscribe(request: SubscribeToTaskRequest) -> None:
    """Check a SubscribeToTask request."""
    _no_tenant(request.tenant)
    _required(request.id, "id")


def create_push_config(request: TaskPushNotificationConfig) -> None:
    """Check a CreateTaskPushNotificationConfig request."""
    _no_tenant(request.tenant)
    _required(request.task_id or "", "taskId")
    _push_config(request, "")


def name_push_config(
    request: GetTaskPushNotificationConfigRequest | DeleteTaskPushNotificationConfigRequest,
) -> None:
    """Check a request that names one push configuration."""
    _no_tenant(request.tenant)
    _required(request.task_id, "taskId")
    _required(request.id, "id")


def list_push_configs(request: ListTaskPushNotificationConfigsRequest) -> None:
    """Check a ListTaskPushNotificationConfigs request; `pageSize` 0 is its proto default, unset."""
    _no_tenant(request.tenant)
    _required(request.task_id, "taskId")
    request.page_token = request.page_token or UNSET
    request.page_size = request.page_size or UNSET
    if request.page_size is not UNSET and request.page_size not in PAGE_SIZES:
        raise invalid_params("pageSize", "pageSize must be between 1 and 100")


def extended_card(request: GetExtendedAgentCardRequest) -> None:
    """Check a GetExtendedAgentCard request."""
    _no_tenant(request.tenant)


def decode_base64(text: str) -> bytes:
    """Return the bytes of a `raw` part: standard or URL-safe alphabet, padded or not, nothing else in it.

    Raises:
        ValueError: Not base64.
    """
    if "-" in text or "_" in text:
        text = text.translate(_STANDARD)
    if not text.endswith("=") and len(text) % _GROUP:
        text += "=" * (-len(text) % _GROUP)
    return binascii.a2b_base64(text, strict_mode=True)


def nests_within_limit(value: Raw) -> bool:
    """Tell whether free-form JSON may be stored: `DEPTH` levels always may, three times as many never.

    What is stored is decoded again elsewhere, wrapped deeper and on deeper stacks; a value at the decoder's own limit
    would be readable here and nowhere else. The value is measured with the decoder itself, most of its levels taken up.
    """
    text = bytes(value)
    if len(text) <= 2 * DEPTH or text.count(b"[") + text.count(b"{") <= DEPTH:
        return True
    taken = sys.getrecursionlimit() - _STACK
    try:
        _RAW.decode(b"[" * taken + text + b"]" * taken)
    except RecursionError:
        return False
    return True


def _message(message: Message) -> None:
    _required(message.message_id, "message.messageId")
    if message.role is not Role.USER:
        raise invalid_params("message.role", "message.role must be ROLE_USER")
    if not message.parts:
        raise invalid_params("message.parts", "message.parts must hold at least one part")
    if len(message.parts) > PARTS:
        raise invalid_params("message.parts", f"message.parts must hold at most {PARTS} parts")
    for index, part in enumerate(message.parts):
        if part.text is UNSET or part.raw is not UNSET or part.url is not UNSET or part.data is not UNSET:
            _content(part, f"message.parts[{index}]")
        if part.metadata is not UNSET:
            part.metadata = _object(part.metadata, f"message.parts[{index}].metadata")
    if message.context_id is not UNSET:
        if not message.context_id:
            message.context_id = UNSET
        elif not ids.is_context_id(message.context_id):
            raise invalid_params("message.contextId", "message.contextId must match [A-Za-z0-9_-]{1,100}")
    if message.task_id is not UNSET:
        message.task_id = message.task_id or UNSET
    if message.metadata is not UNSET:
        message.metadata = _object(message.metadata, "message.metadata")


def _content(part: Part, path: str) -> None:
    named = (part.text is not UNSET) + (part.raw is not UNSET) + (part.url is not UNSET)
    if part.data is not UNSET:
        if named and bytes(part.data) == b"null":
            part.data = UNSET
        else:
            named += 1
    if named != 1:
        raise invalid_params(path, f"{path} must hold exactly one of text, raw, url, data")
    if part.raw is not UNSET:
        try:
            decode_base64(part.raw)
        except ValueError:
            raise invalid_params(f"{path}.raw", f"{path}.raw must be base64") from None
    elif part.url is not UNSET:
        _required(part.url, f"{path}.url")
    elif part.data is not UNSET and not nests_within_limit(part.data):
        raise _too_deep(f"{path}.data")


def _configuration(configuration: SendMessageConfiguration) -> None:
    _history_length(configuration.history_length, "configuration.historyLength")
    if configuration.task_push_notification_config is not UNSET:
        _push_config(configuration.task_push_notification_config, "configuration.taskPushNotificationConfig.")


def _push_config(config: TaskPushNotificationConfig, path: str) -> None:
    _required(config.url, f"{path}url")
    if config.authentication is not UNSET:
        _required(config.authentication.scheme, f"{path}authentication.scheme")


def _object(value: Raw, path: str) -> Raw | UnsetType:
    text = bytes(value)
    if text == b"null":
        return UNSET
    if not text.startswith(b"{"):
        raise invalid_params(path, f"{path} must be an object")
    if not nests_within_limit(value):
        raise _too_deep(path)
    return value


def _history_length(value: int | UnsetType, path: str) -> None:
    if value is not UNSET and not 0 <= value <= INT32_MAX:
        raise invalid_params(path, f"{path} must be between 0 and {INT32_MAX}")


def _required(value: str, path: str) -> None:
    if not value:
        raise invalid_params(path, f"{path} is required")


def _no_tenant(tenant: str | UnsetType) -> None:
    if tenant:
        raise invalid_params("tenant", "no tenants are served here")


def _too_deep(path: str) -> A2AError:
    return invalid_params(path, f"{path} is nested too deeply")
