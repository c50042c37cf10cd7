"""The HTTP+JSON binding: paths, query strings and bodies to the same requests as JSON-RPC (spec §5.3, §11).

A `:verb` suffix is never part of an id. SubscribeToTask is served by POST (the text of the spec) and GET (the proto).
Tenant paths are not served.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

import msgspec

from volcanic.protocol.errors import A2AError, ErrorKind, invalid_params
from volcanic.protocol.jsonrpc import require_utf8
from volcanic.protocol.methods import METHODS, Params

PUBLIC_CARD: Final = "PublicCard"
"""The route of `GET /card`: the public card, which is no method of the protocol."""

_FIELDS: Final = 64
_SEND: Final = frozenset({"SendMessage", "SendStreamingMessage"})
_TASK_VERBS: Final = {
    "cancel": {"POST": "CancelTask"},
    "subscribe": {"POST": "SubscribeToTask", "GET": "SubscribeToTask"},
}
_FIXED: Final = {
    "/message:send": {"POST": "SendMessage"},
    "/message:stream": {"POST": "SendStreamingMessage"},
    "/tasks": {"GET": "ListTasks"},
    "/extendedAgentCard": {"GET": "GetExtendedAgentCard"},
    "/card": {"GET": PUBLIC_CARD},
}
_TASK: Final = {"GET": "GetTask"}
_CONFIGS: Final = {"GET": "ListTaskPushNotificationConfigs", "POST": "CreateTaskPushNotificationConfig"}
_CONFIG: Final = {"GET": "GetTaskPushNotificationConfig", "DELETE": "DeleteTaskPushNotificationConfig"}
_TASK_PATH: Final = re.compile(r"/tasks/([^/:][^/]*?)(?::([A-Za-z]+))?")
_CONFIG_PATH: Final = re.compile(r"/tasks/([^/:]+)/pushNotificationConfigs(?:/([^/]+))?")
_INTEGER: Final = re.compile(r"-?[0-9]{1,12}")
_BOOLEANS: Final = {"true": b"true", "false": b"false"}
_INTEGERS: Final = frozenset({"historyLength", "pageSize"})
_FLAGS: Final = frozenset({"includeArtifacts"})
_QUERY: Final[Mapping[str, frozenset[str]]] = {
    "GetTask": frozenset({"historyLength", "tenant"}),
    "ListTasks": frozenset(
        {
            "contextId",
            "historyLength",
            "includeArtifacts",
            "pageSize",
            "pageToken",
            "status",
            "statusTimestampAfter",
            "tenant",
        },
    ),
    "ListTaskPushNotificationConfigs": frozenset({"pageSize", "pageToken", "tenant"}),
}
_TENANT: Final = frozenset({"tenant"})
_BODIES: Final = _SEND | {"CancelTask", "SubscribeToTask", "CreateTaskPushNotificationConfig"}


class RouteMatch(NamedTuple):
    """What a path and an HTTP method name: a method (or `PUBLIC_CARD`) and the members that the path holds."""

    method: str
    path: Mapping[str, str]


class RouteMiss(NamedTuple):
    """Nothing here: NOT_FOUND, or METHOD_NOT_ALLOWED with the value of the `Allow` header."""

    kind: ErrorKind
    allow: str = ""


def route(http_method: str, path: str) -> RouteMatch | RouteMiss:
    """Find the method for an HTTP method and a percent-decoded path below the interface's URL (`/tasks/…`)."""
    fixed = _FIXED.get(path)
    if fixed is not None:
        return _choose(http_method, fixed, {})
    task = _TASK_PATH.fullmatch(path)
    if task is not None:
        task_id, verb = task.groups()
        verbs = _TASK if verb is None else _TASK_VERBS.get(verb)
        return RouteMiss(ErrorKind.NOT_FOUND) if verbs is None else _choose(http_method, verbs, {"id": task_id})
    config = _CONFIG_PATH.fullmatch(path)
    if config is None:
        return RouteMiss(ErrorKind.NOT_FOUND)
    task_id, config_id = config.groups()
    if config_id is None:
        return _choose(http_method, _CONFIGS, {"taskId": task_id})
    return _choose(http_method, _CONFIG, {"taskId": task_id, "id": config_id})


def decode(match: RouteMatch, query: bytes, body: bytes) -> Params:
    """Return the valid request of a matched route (any but `PUBLIC_CARD`); the members of the path win.

    Without a body where one may be left out (cancel, subscribe), the request is what the path says.

    Raises:
        A2AError: PARSE for a body that is not JSON, INVALID_PARAMS with the member or query parameter at fault.
    """
    method = METHODS[match.method]
    if match.method in _SEND:
        require_utf8(body)
        return method.decode(body)
    members = _body_members(body) if match.method in _BODIES else {}
    if match.method not in _BODIES:
        members.update(_query_members(query, _QUERY.get(match.method, _TENANT)))
    members.update((name, _encoded(value)) for name, value in match.path.items())
    return method.decode(msgspec.json.encode(members))


def _choose(http_method: str, verbs: Mapping[str, str], path: Mapping[str, str]) -> RouteMatch | RouteMiss:
    name = verbs.get(http_method)
    if name is None:
        return RouteMiss(ErrorKind.METHOD_NOT_ALLOWED, ", ".join(sorted(verbs)))
    return RouteMatch(name, path)


def _body_members(body: bytes) -> dict[str, msgspec.Raw]:
    if not body.strip():
        return {}
    require_utf8(body)
    try:
        return msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        raise invalid_params("", "the body must be an object") from None
    except (msgspec.DecodeError, RecursionError):
        raise A2AError(ErrorKind.PARSE) from None


def _query_members(query: bytes, known: frozenset[str]) -> dict[str, msgspec.Raw]:
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS)
    except ValueError:
        raise A2AError(ErrorKind.INVALID_PARAMS, "the query string is malformed") from None
    members: dict[str, msgspec.Raw] = {}
    for name, value in pairs:
        if name not in known:
            continue
        if name in members:
            raise invalid_params(name, f"{name} must be given once")
        members[name] = _typed(name, value)
    return members


def _typed(name: str, value: str) -> msgspec.Raw:
    if name in _INTEGERS:
        if _INTEGER.fullmatch(value) is None:
            raise invalid_params(name, f"{name} must be an integer")
        return _encoded(int(value))
    if name in _FLAGS:
        flag = _BOOLEANS.get(value)
        if flag is None:
            raise invalid_params(name, f"{name} must be true or false")
        return msgspec.Raw(flag)
    return _encoded(value)


def _encoded(value: str | int) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))
