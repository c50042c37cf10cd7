"""Every error a caller can see, in one table that both bindings read (spec 1.0.1 §3.3.2, §5.4, §9.5, §11.6).

A text never holds an id, a key or anything else that would tell a foreign task from an absent one: both are
`A2AError(ErrorKind.TASK_NOT_FOUND)` and come out byte-equal.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw

DOMAIN: Final = "a2a-protocol.org"
CONTEXT_BUSY: Final = "context busy, retry when the current task ends"
"""Why a message to a context with a live run is refused (a2a.md#sessions)."""

_ERROR_INFO: Final = "type.googleapis.com/google.rpc.ErrorInfo"
_BAD_REQUEST: Final = "type.googleapis.com/google.rpc.BadRequest"
_RETRY_INFO: Final = "type.googleapis.com/google.rpc.RetryInfo"


class ErrorKind(enum.StrEnum):
    """The rows of the error table; the value is what an Owner API refusal carries."""

    PARSE = "parse"
    INVALID_REQUEST = "invalid_request"
    METHOD_NOT_FOUND = "method_not_found"
    INVALID_PARAMS = "invalid_params"
    INTERNAL = "internal"
    TASK_NOT_FOUND = "task_not_found"
    TASK_NOT_CANCELABLE = "task_not_cancelable"
    PUSH_NOTIFICATION_NOT_SUPPORTED = "push_notification_not_supported"
    UNSUPPORTED_OPERATION = "unsupported_operation"
    CONTENT_TYPE_NOT_SUPPORTED = "content_type_not_supported"
    INVALID_AGENT_RESPONSE = "invalid_agent_response"
    EXTENDED_AGENT_CARD_NOT_CONFIGURED = "extended_agent_card_not_configured"
    EXTENSION_SUPPORT_REQUIRED = "extension_support_required"
    VERSION_NOT_SUPPORTED = "version_not_supported"
    UNAUTHENTICATED = "unauthenticated"
    UNAVAILABLE = "unavailable"
    LIMITED = "limited"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    BODY_TOO_LARGE = "body_too_large"
    BODY_TIMEOUT = "body_timeout"
    SUCCESSOR = "successor"
    """Of the Owner API: this slot takes no new runs, the one that replaces it will. Outside it is UNAVAILABLE."""


class Row(NamedTuple):
    """How one kind looks on the wire."""

    code: int
    """The JSON-RPC error code."""
    http: int
    """The HTTP status of the REST binding."""
    status: str
    """The google.rpc code name in a REST error."""
    reason: str
    """The ErrorInfo reason."""
    text: str
    """The message when the raiser gives none."""
    rpc_http: int = 200
    """The HTTP status that carries the JSON-RPC envelope."""


TABLE: Final[dict[ErrorKind, Row]] = {
    ErrorKind.PARSE: Row(-32700, 400, "INVALID_ARGUMENT", "JSON_PARSE", "Invalid JSON payload"),
    ErrorKind.INVALID_REQUEST: Row(
        -32600, 400, "INVALID_ARGUMENT", "INVALID_REQUEST", "Request payload validation error"
    ),
    ErrorKind.METHOD_NOT_FOUND: Row(-32601, 404, "NOT_FOUND", "METHOD_NOT_FOUND", "Method not found"),
    ErrorKind.INVALID_PARAMS: Row(-32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS", "Invalid parameters"),
    ErrorKind.INTERNAL: Row(-32603, 500, "INTERNAL", "INTERNAL", "Internal error"),
    ErrorKind.TASK_NOT_FOUND: Row(-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND", "Task not found"),
    ErrorKind.TASK_NOT_CANCELABLE: Row(
        -32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE", "The task can no longer be canceled"
    ),
    ErrorKind.PUSH_NOTIFICATION_NOT_SUPPORTED: Row(
        -32003,
        400,
        "FAILED_PRECONDITION",
        "PUSH_NOTIFICATION_NOT_SUPPORTED",
        "Push notifications are not supported",
    ),
    ErrorKind.UNSUPPORTED_OPERATION: Row(
        -32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION", "The operation is not supported"
    ),
    ErrorKind.CONTENT_TYPE_NOT_SUPPORTED: Row(
        -32005, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED", "The content type is not supported"
    ),
    ErrorKind.INVALID_AGENT_RESPONSE: Row(
        -32006, 500, "INTERNAL", "INVALID_AGENT_RESPONSE", "The agent gave an invalid response"
    ),
    ErrorKind.EXTENDED_AGENT_CARD_NOT_CONFIGURED: Row(
        -32007,
        400,
        "FAILED_PRECONDITION",
        "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
        "No extended agent card is configured",
    ),
    ErrorKind.EXTENSION_SUPPORT_REQUIRED: Row(
        -32008, 400, "FAILED_PRECONDITION", "EXTENSION_SUPPORT_REQUIRED", "A required extension was not declared"
    ),
    ErrorKind.VERSION_NOT_SUPPORTED: Row(
        -32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED", "The A2A version is not supported"
    ),
    ErrorKind.UNAUTHENTICATED: Row(
        -32000, 401, "UNAUTHENTICATED", "UNAUTHENTICATED", "A valid API key is required", 401
    ),
    ErrorKind.UNAVAILABLE: Row(-32050, 503, "UNAVAILABLE", "UNAVAILABLE", "the agent is restarting, retry"),
    ErrorKind.LIMITED: Row(-32051, 429, "RESOURCE_EXHAUSTED", "LIMITED", "Too many requests, retry later", 429),
    ErrorKind.NOT_FOUND: Row(-32601, 404, "NOT_FOUND", "NOT_FOUND", "Not found", 404),
    ErrorKind.METHOD_NOT_ALLOWED: Row(
        -32600, 405, "UNIMPLEMENTED", "METHOD_NOT_ALLOWED", "The HTTP method is not allowed here", 405
    ),
    ErrorKind.UNSUPPORTED_MEDIA_TYPE: Row(
        -32005, 415, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED", "The request's Content-Type is not supported"
    ),
    ErrorKind.BODY_TOO_LARGE: Row(
        -32600, 413, "INVALID_ARGUMENT", "BODY_TOO_LARGE", "The request body is too large", 413
    ),
    ErrorKind.BODY_TIMEOUT: Row(
        -32600, 408, "DEADLINE_EXCEEDED", "BODY_TIMEOUT", "The request body took too long", 408
    ),
    ErrorKind.SUCCESSOR: Row(-32050, 503, "UNAVAILABLE", "UNAVAILABLE", "the agent is restarting, retry"),
}


class A2AError(Exception):
    """A refusal that a caller may see.

    `message` is shown as it is (the table's text when empty). `field` names the member that is at fault, as a path from
    the request object (`message.parts[0].raw`). `retry_after` is in seconds. `id` is the JSON-RPC id as it came in,
    where the error was found before a request existed to hold it.
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str = "",
        *,
        field: str = "",
        retry_after: float | None = None,
        id: Raw | None = None,  # noqa: A002 - the wire's name
    ) -> None:
        super().__init__(kind, message)
        self.kind: Final = kind
        self.message: Final = message or TABLE[kind].text
        self.field: Final = field
        self.retry_after: Final = retry_after
        self.id: Final = id

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"

    @property
    def row(self) -> Row:
        """How this error looks on the wire."""
        return TABLE[self.kind]


def task_not_found() -> A2AError:
    """Return the one answer for an absent and for a foreign task (a2a.md#files; J1)."""
    return A2AError(ErrorKind.TASK_NOT_FOUND)


def context_busy() -> A2AError:
    """Return the refusal of a message to a context whose run is live (a2a.md#sessions)."""
    return A2AError(ErrorKind.UNSUPPORTED_OPERATION, CONTEXT_BUSY)


def invalid_params(field: str, message: str) -> A2AError:
    """Return an INVALID_PARAMS error that names the member at fault."""
    return A2AError(ErrorKind.INVALID_PARAMS, message, field=field)


def from_refusal(kind: str, message: str, field: str, retry_after: float | None = None) -> A2AError:
    """Rebuild the error an Owner API refusal carries; an unknown kind (of a newer peer) is INTERNAL."""
    if kind in TABLE:
        return A2AError(ErrorKind(kind), message, field=field, retry_after=retry_after)
    return A2AError(ErrorKind.INTERNAL)


def details(error: A2AError) -> list[dict[str, object]]:
    """Return the error's detail objects: ErrorInfo first, then what else is known (spec §9.5, §11.6)."""
    found: list[dict[str, object]] = [{"@type": _ERROR_INFO, "reason": error.row.reason, "domain": DOMAIN}]
    if error.field:
        violation = {"field": error.field, "description": error.message}
        found.append({"@type": _BAD_REQUEST, "fieldViolations": [violation]})
    if error.retry_after is not None:
        found.append({"@type": _RETRY_INFO, "retryDelay": f"{max(0.0, error.retry_after):.3f}s"})
    return found


def jsonrpc_error(error: A2AError, id: Raw | None) -> bytes:  # noqa: A002 - the wire's name
    """Return the JSON-RPC envelope of the error; `id` None is `null`.

    A missing key is the exception: its body is the same on every binding and is no envelope.
    """
    if error.kind is ErrorKind.UNAUTHENTICATED:
        return _unauthenticated(error)
    shown = {"code": error.row.code, "message": error.message, "data": details(error)}
    head = bytes(id) if id is not None else b"null"
    return b'{"jsonrpc":"2.0","id":' + head + b',"error":' + msgspec.json.encode(shown) + b"}"


def rest_error(error: A2AError) -> tuple[int, bytes]:
    """Return the HTTP status and the `google.rpc.Status` body of the error (spec §11.6)."""
    row = error.row
    if error.kind is ErrorKind.UNAUTHENTICATED:
        return row.http, _unauthenticated(error)
    shown = {"code": row.http, "status": row.status, "message": error.message, "details": details(error)}
    return row.http, msgspec.json.encode({"error": shown})


def _unauthenticated(error: A2AError) -> bytes:
    shown = {"code": 401, "status": "UNAUTHENTICATED", "message": error.message}
    return msgspec.json.encode({"error": shown})
