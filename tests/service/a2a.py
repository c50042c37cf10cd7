"""The requests a caller sends and what it reads from answers, as plain JSON values."""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import quote, urlencode

Json = dict[str, Any]

KINDS: dict[str, tuple[int, int]] = {
    "PARSE": (-32700, 400),
    "INVALID_REQUEST": (-32600, 400),
    "METHOD_NOT_FOUND": (-32601, 404),
    "INVALID_PARAMS": (-32602, 400),
    "TASK_NOT_FOUND": (-32001, 404),
    "TASK_NOT_CANCELABLE": (-32002, 400),
    "PUSH_NOTIFICATION_NOT_SUPPORTED": (-32003, 400),
    "UNSUPPORTED_OPERATION": (-32004, 400),
    "CONTENT_TYPE_NOT_SUPPORTED": (-32005, 400),
    "VERSION_NOT_SUPPORTED": (-32009, 400),
}
"""Each refusal as the bindings show it: the JSON-RPC code and the HTTP status (spec 1.0.1 §5.4, §9.5)."""

OWN_REASONS = frozenset(KINDS) - {"PARSE", "INVALID_REQUEST", "METHOD_NOT_FOUND", "INVALID_PARAMS"}
"""The refusals that are A2A's own and so must carry their name as the ErrorInfo reason on both bindings."""

ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"


def envelope(method: str, params: Json | None = None, id: Any = "1") -> Json:  # noqa: A002 - the member's own name
    """Return a JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": id, "method": method} | ({} if params is None else {"params": params})


REST: dict[str, tuple[str, str, bool]] = {
    "SendMessage": ("POST", "/message:send", True),
    "SendStreamingMessage": ("POST", "/message:stream", True),
    "GetTask": ("GET", "/tasks/{id}", False),
    "ListTasks": ("GET", "/tasks", False),
    "CancelTask": ("POST", "/tasks/{id}:cancel", True),
    "SubscribeToTask": ("POST", "/tasks/{id}:subscribe", False),
    "CreateTaskPushNotificationConfig": ("POST", "/tasks/{taskId}/pushNotificationConfigs", True),
    "GetTaskPushNotificationConfig": ("GET", "/tasks/{taskId}/pushNotificationConfigs/{id}", False),
    "ListTaskPushNotificationConfigs": ("GET", "/tasks/{taskId}/pushNotificationConfigs", False),
    "DeleteTaskPushNotificationConfig": ("DELETE", "/tasks/{taskId}/pushNotificationConfigs/{id}", False),
    "GetExtendedAgentCard": ("GET", "/extendedAgentCard", False),
}
"""Each method's REST form (§11.3): verb, path, and whether what the path does not carry is a body or a query."""


def rest_request(method: str, params: Json) -> tuple[str, str, Json | None]:
    """Return verb, path (with query) and body of a call in the REST binding."""
    verb, template, has_body = REST[method]
    in_path = [name for name in ("id", "taskId") if f"{{{name}}}" in template]
    path = template.format(**{name: quote(params[name], safe="") for name in in_path})
    rest = {name: value for name, value in params.items() if name not in in_path}
    return verb, path if has_body else path + _query(rest), rest if has_body else None


def _query(params: Json) -> str:
    plain = {name: str(value).lower() if isinstance(value, bool) else value for name, value in params.items()}
    return f"?{urlencode(plain)}" if plain else ""


def saying(text: str, **members: Any) -> Json:
    """Return a user's message with a fresh id."""
    return {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}], **members}


def sending(
    text: str,
    *,
    context: str | None = None,
    task: str | None = None,
    metadata: Json | None = None,
    configuration: Json | None = None,
    immediately: bool = False,
    **members: Any,
) -> Json:
    """Return the parameters of SendMessage and SendStreamingMessage."""
    message = saying(text, **members)
    message |= {} if context is None else {"contextId": context}
    message |= {} if task is None else {"taskId": task}
    configuration = {**(configuration or {}), **({"returnImmediately": True} if immediately else {})}
    params: Json = {"message": message}
    params |= {} if metadata is None else {"metadata": metadata}
    return params | ({"configuration": configuration} if configuration else {})


def state_of(task: Json) -> str:
    """Return a task's (or status update's) state without the prefix that all states share."""
    state: str = task["status"]["state"]
    assert state.startswith("TASK_STATE_"), state
    return state.removeprefix("TASK_STATE_")


def text_of(parts: list[Json]) -> str:
    """Return the text of parts, put together."""
    return "".join(part.get("text", "") for part in parts)


def said(task: Json) -> str:
    """Return the text of the status message."""
    return text_of(task["status"].get("message", {}).get("parts", []))


def answer(task: Json) -> str | None:
    """Return the text of the `response` artifact, or None without one."""
    found = [
        artifact
        for artifact in task.get("artifacts", [])
        if "response" in {artifact["artifactId"], artifact.get("name")}
    ]
    assert len(found) <= 1, f"more than one response artifact: {found}"
    return text_of(found[0]["parts"]) if found else None
