"""The methods of A2A 1.0 and how the parameters of each become a valid request (spec §5.3, §9.4).

Both bindings end here: `params` of JSON-RPC and the body of REST are the same objects.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

import msgspec

from volcanic.protocol import protojson, validate
from volcanic.protocol.errors import A2AError, ErrorKind, invalid_params
from volcanic.protocol.types import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)

Params = (
    SendMessageRequest
    | GetTaskRequest
    | ListTasksRequest
    | CancelTaskRequest
    | SubscribeToTaskRequest
    | TaskPushNotificationConfig
    | GetTaskPushNotificationConfigRequest
    | ListTaskPushNotificationConfigsRequest
    | DeleteTaskPushNotificationConfigRequest
    | GetExtendedAgentCardRequest
)
"""A valid request of any method."""

_P = TypeVar("_P", bound=Params)
_T = TypeVar("_T")
_AT: Final = " - at `$"
_MISSING: Final = re.compile(r"Object missing required field `(\w+)`")
_EXPECTED: Final = re.compile(r"Expected `(\w+)`, got `(\w+)`")
_TYPES: Final = {
    "str": "a string",
    "int": "an integer",
    "bool": "true or false",
    "object": "an object",
    "array": "an array",
}
_CHOICES: Final = {
    "role": Role.USER.value,
    "status": ", ".join(state for state in TaskState if state is not TaskState.UNSPECIFIED),
}


class Method(NamedTuple):
    """One operation: its name, its request struct, whether it answers with a stream, and its decoder."""

    name: str
    request: type[msgspec.Struct]
    streaming: bool
    decode: Callable[[bytes], Params]
    """JSON of the parameters to a valid request; raises `A2AError` PARSE or INVALID_PARAMS."""
    check: Callable[[Params], None]
    """Validate a request built otherwise; raises `A2AError` INVALID_PARAMS."""


def decode_params(method: str, raw: bytes) -> Params:
    """Return the valid request of `method`.

    Raises:
        A2AError: METHOD_NOT_FOUND, INVALID_PARAMS with the member at fault, or PARSE when `raw` is not JSON.
    """
    known = METHODS.get(method)
    if known is None:
        raise A2AError(ErrorKind.METHOD_NOT_FOUND)
    return known.decode(raw)


def fault(error: msgspec.ValidationError) -> A2AError:
    """Say what the decoder found wrong, with the member's path, and without the value the caller sent."""
    shown = str(error)
    text, _, path = shown.rpartition(_AT) if _AT in shown else (shown, "", "")
    path = path.removeprefix(".").removesuffix("`")
    missing = _MISSING.fullmatch(text)
    if missing is not None:
        path = f"{path}.{missing[1]}" if path else missing[1]
        return invalid_params(path, f"{path} is required")
    name = path or "params"
    expected = _EXPECTED.fullmatch(text)
    if expected is not None:
        return invalid_params(path, f"{name} must be {_TYPES.get(expected[1], expected[1])}")
    choices = _CHOICES.get(path.rpartition(".")[2])
    return invalid_params(path, f"{name} must be one of {choices}" if choices else f"{name} is out of range")


def _json(read: Callable[[bytes], _T], raw: bytes) -> _T:
    """Read JSON; what is not of the right shape is left to the caller as `msgspec.ValidationError`."""
    try:
        return read(raw)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, RecursionError):
        raise A2AError(ErrorKind.PARSE) from None


def _method(name: str, request: type[_P], check: Callable[[_P], None], *, streaming: bool = False) -> Method:
    decoder = msgspec.json.Decoder(request)

    def decode(raw: bytes) -> Params:
        try:
            params = _json(decoder.decode, raw)
            if protojson.has_proto_names(raw):
                params = _json(decoder.decode, _json(in_plain_form, raw))
        except msgspec.ValidationError as error:
            params = from_plain_form(raw, error)
        check(params)
        return params

    def in_plain_form(raw: bytes) -> bytes:
        return protojson.plain(raw, request)

    def from_plain_form(raw: bytes, error: msgspec.ValidationError) -> _P:
        try:
            cleaned = _json(in_plain_form, raw)
        except msgspec.ValidationError:
            raise fault(error) from None
        try:
            return _json(decoder.decode, cleaned)
        except msgspec.ValidationError as again:
            raise fault(again) from None

    return Method(name, request, streaming, decode, check)  # type: ignore[arg-type]


METHODS: Final[dict[str, Method]] = {
    method.name: method
    for method in (
        _method("SendMessage", SendMessageRequest, validate.send_message),
        _method("SendStreamingMessage", SendMessageRequest, validate.send_message, streaming=True),
        _method("GetTask", GetTaskRequest, validate.get_task),
        _method("ListTasks", ListTasksRequest, validate.list_tasks),
        _method("CancelTask", CancelTaskRequest, validate.cancel_task),
        _method("SubscribeToTask", SubscribeToTaskRequest, validate.subscribe, streaming=True),
        _method("CreateTaskPushNotificationConfig", TaskPushNotificationConfig, validate.create_push_config),
        _method("GetTaskPushNotificationConfig", GetTaskPushNotificationConfigRequest, validate.name_push_config),
        _method("ListTaskPushNotificationConfigs", ListTaskPushNotificationConfigsRequest, validate.list_push_configs),
        _method("DeleteTaskPushNotificationConfig", DeleteTaskPushNotificationConfigRequest, validate.name_push_config),
        _method("GetExtendedAgentCard", GetExtendedAgentCardRequest, validate.extended_card),
    )
}
"""Every method of the 1.0 interface by name."""

PUSH_CONFIG_METHODS: Final = frozenset(name for name in METHODS if "PushNotificationConfig" in name)
"""The methods that need `capabilities.pushNotifications`."""
