from __future__ import annotations

import json
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.strategies import REQUESTS
from volcanic.protocol import jsonrpc, methods, rest, types
from volcanic.protocol.errors import A2AError, ErrorKind
from volcanic.protocol.rest import RouteMatch, RouteMiss

ROUTES = {
    "SendMessage": ("POST", "/message:send"),
    "SendStreamingMessage": ("POST", "/message:stream"),
    "GetTask": ("GET", "/tasks/{id}"),
    "ListTasks": ("GET", "/tasks"),
    "CancelTask": ("POST", "/tasks/{id}:cancel"),
    "SubscribeToTask": ("POST", "/tasks/{id}:subscribe"),
    "CreateTaskPushNotificationConfig": ("POST", "/tasks/{taskId}/pushNotificationConfigs"),
    "GetTaskPushNotificationConfig": ("GET", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
    "ListTaskPushNotificationConfigs": ("GET", "/tasks/{taskId}/pushNotificationConfigs"),
    "DeleteTaskPushNotificationConfig": ("DELETE", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
    "GetExtendedAgentCard": ("GET", "/extendedAgentCard"),
}
PATH_ID = "0f" * 16
NO_TASK = RouteMiss(ErrorKind.NOT_FOUND)


def matched(http_method, path):
    match = rest.route(http_method, path)
    assert isinstance(match, RouteMatch)
    return match


def read(match, query=b"", body=b""):
    return rest.decode(match, query, body)


def refused(match, query=b"", body=b""):
    """Return the kind, the field and the message of the refusal."""
    with pytest.raises(A2AError) as caught:
        read(match, query, body)
    return caught.value.kind, caught.value.field, caught.value.message


def test_every_method_has_a_route():
    assert set(ROUTES) == set(methods.METHODS)
    for name, (verb, path) in ROUTES.items():
        match = matched(verb, path.format(id="t-1", taskId="t-2"))
        assert match.method == name
        assert match.path == {key: value for key, value in (("id", "t-1"), ("taskId", "t-2")) if f"{{{key}}}" in path}


@pytest.mark.parametrize("verb", ["GET", "POST"])
def test_a_subscription_is_served_by_both_verbs(verb):
    assert rest.route(verb, "/tasks/T:subscribe") == RouteMatch("SubscribeToTask", {"id": "T"})


def test_the_public_card_has_a_route():
    assert rest.route("GET", "/card") == RouteMatch(rest.PUBLIC_CARD, {})


@pytest.mark.parametrize(
    ("verb", "path", "allow"),
    [
        ("GET", "/message:send", "POST"),
        ("PUT", "/message:stream", "POST"),
        ("POST", "/tasks", "GET"),
        ("POST", "/tasks/T", "GET"),
        ("DELETE", "/tasks/T", "GET"),
        ("GET", "/tasks/T:cancel", "POST"),
        ("DELETE", "/tasks/T:subscribe", "GET, POST"),
        ("DELETE", "/tasks/T/pushNotificationConfigs", "GET, POST"),
        ("POST", "/tasks/T/pushNotificationConfigs/c", "DELETE, GET"),
        ("POST", "/card", "GET"),
        ("post", "/message:send", "POST"),
    ],
)
def test_another_verb_is_refused_naming_the_right_ones(verb, path, allow):
    assert rest.route(verb, path) == RouteMiss(ErrorKind.METHOD_NOT_ALLOWED, allow)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/x",
        "/message",
        "/message:",
        "/message:sendx",
        "/tasks/",
        "/tasks/:cancel",
        "/tasks/T:",
        "/tasks/T:resubscribe",
        "/tasks/T:Cancel",
        "/tasks/T/",
        "/tasks/T/x",
        "/tasks/T/pushNotificationConfigs/",
        "/tasks/T/pushNotificationConfigs/c/d",
        "/tenant/tasks",
        "/tenant/message:send",
        "/tenant/tasks/T:cancel",
        "/v1/card",
        "//tasks",
        "/tasks\n",
    ],
)
@pytest.mark.parametrize("verb", ["GET", "POST", "DELETE"])
def test_other_paths_are_not_found(verb, path):
    if path == "/tasks/T:":
        assert rest.route("GET", path) == RouteMatch("GetTask", {"id": "T:"})
    else:
        assert rest.route(verb, path) == NO_TASK


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_path_is_routed_or_missed(verb, path):
    assert isinstance(rest.route(verb, path), RouteMatch | RouteMiss)


@given(st.from_regex(r"[^/:]{1,10}", fullmatch=True), st.sampled_from(["cancel", "subscribe"]))
def test_a_verb_is_never_part_of_an_id(task_id, verb):
    match = matched("POST", f"/tasks/{task_id}:{verb}")
    assert match.path == {"id": task_id}
    assert match.method == {"cancel": "CancelTask", "subscribe": "SubscribeToTask"}[verb]


def as_rest(name, members):
    """Return the route, query and body that express a request on this binding."""
    verb, path = ROUTES[name]
    route = {key: members.pop(key) for key in ("id", "taskId") if f"{{{key}}}" in path}
    match = RouteMatch(name, route)
    if verb == "POST":
        return match, b"", json.dumps(members).encode()
    pairs = {key: json.dumps(value) if isinstance(value, int) else value for key, value in members.items()}
    return match, urlencode(pairs).encode(), b""


@given(st.data())
@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_a_valid_request_is_the_same_on_both_bindings(name, data):
    wire = types.encode(data.draw(REQUESTS[name]))
    expected = json.loads(types.encode(methods.decode_params(name, wire)))
    assert json.loads(types.encode(read(*as_rest(name, json.loads(wire))))) == expected


def wrong(data, value):
    """Damage one place of a JSON document: another type, or gone."""
    if isinstance(value, dict) and value and data.draw(st.booleans()):
        key = data.draw(st.sampled_from(sorted(value)))
        if data.draw(st.booleans()):
            return {name: item for name, item in value.items() if name != key}
        return value | {key: wrong(data, value[key])}
    if isinstance(value, list) and value and data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(value) - 1))
        return [*value[:at], wrong(data, value[at]), *value[at + 1 :]]
    return data.draw(st.sampled_from([None, True, 0, -1, 1.5, "", "x", [], {}, 10**30]))


def _outcome(read):
    try:
        return types.encode(read())
    except A2AError as error:
        assert error.row.http < 500  # noqa: PT017 - reading is an outcome too
        return error.kind, error.field, error.message


@given(st.data())
@pytest.mark.parametrize("name", ["SendMessage", "SendStreamingMessage"])
def test_a_damaged_message_is_answered_alike_on_both_bindings(name, data):
    request = json.loads(types.encode(data.draw(REQUESTS[name])))
    body = json.dumps(wrong(data, request)).encode()
    call = b'{"jsonrpc":"2.0","id":1,"method":"%s","params":%s}' % (name.encode(), body)
    by_rpc = _outcome(lambda: methods.decode_params(name, jsonrpc.decode(call).params))
    assert _outcome(lambda: read(RouteMatch(name, {}), b"", body)) == by_rpc


LIST = RouteMatch("ListTasks", {})
GET = RouteMatch("GetTask", {"id": PATH_ID})
CANCEL = RouteMatch("CancelTask", {"id": PATH_ID})
CREATE = RouteMatch("CreateTaskPushNotificationConfig", {"taskId": PATH_ID})


def test_query_parameters_have_their_types():
    query = (
        b"contextId=c-1&status=TASK_STATE_WORKING&pageSize=5&pageToken=a%2Bb&historyLength=0"
        b"&statusTimestampAfter=2026-12-01T09%3A30%3A00Z&includeArtifacts=true&A2A-Version=1.0"
    )
    assert json.loads(types.encode(read(LIST, query, b""))) == {
        "contextId": "c-1",
        "status": "TASK_STATE_WORKING",
        "pageSize": 5,
        "pageToken": "a+b",
        "historyLength": 0,
        "statusTimestampAfter": "2026-12-01T09:30:00.000Z",
        "includeArtifacts": True,
    }
    assert read(LIST, b"includeArtifacts=false", b"").include_artifacts is False


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("pageSize=0", "pageSize"),
        ("pageSize=-1", "pageSize"),
        ("pageSize=101", "pageSize"),
        ("pageSize=1000000000", "pageSize"),
        ("pageSize=1e9", "pageSize"),
        ("pageSize=x", "pageSize"),
        ("pageSize=2.5", "pageSize"),
        ("pageSize=", "pageSize"),
        ("pageSize=%2B5", "pageSize"),
        ("pageSize=" + "9" * 5000, "pageSize"),
        ("pageSize=" + quote("\u0665"), "pageSize"),
        ("pageSize=5&pageSize=6", "pageSize"),
        ("historyLength=-5", "historyLength"),
        ("historyLength=2147483648", "historyLength"),
        ("status=TASK_STATE_RUNNING", "status"),
        ("status=", "status"),
        ("status=3", "status"),
        ("includeArtifacts=True", "includeArtifacts"),
        ("includeArtifacts=1", "includeArtifacts"),
        ("includeArtifacts=", "includeArtifacts"),
        ("statusTimestampAfter=yesterday", "statusTimestampAfter"),
        ("statusTimestampAfter=2026-12-01T09:30:00+00:00", "statusTimestampAfter"),
        ("tenant=t", "tenant"),
    ],
)
def test_a_bad_query_parameter_is_refused_by_name(query, field):
    kind, named, text = refused(LIST, query.encode())
    assert (kind, named) == (ErrorKind.INVALID_PARAMS, field)
    assert field in text


@pytest.mark.parametrize("query", [b"contextId=%ff", b"contextId=\xff", b"&".join([b"a=b"] * 65)])
def test_a_malformed_query_string_is_refused(query):
    assert refused(LIST, query) == (ErrorKind.INVALID_PARAMS, "", "the query string is malformed")


@given(st.binary(max_size=40))
def test_any_query_string_is_read_or_refused(query):
    for match in (LIST, GET, RouteMatch("GetExtendedAgentCard", {})):
        assert _outcome(lambda match=match: read(match, query, b""))


def test_parameters_of_other_methods_are_ignored():
    request = read(GET, b"id=other&pageSize=x&historyLength=2", b"ignored")
    assert (request.id, request.history_length) == (PATH_ID, 2)


@pytest.mark.parametrize("body", [b"", b" \r\n", b"{}", b'{"id":"other"}', b'{"metadata":null}'])
def test_a_cancel_needs_no_body_and_the_path_wins(body):
    assert types.encode(read(CANCEL, b"", body)) == types.encode(types.CancelTaskRequest(id=PATH_ID))


def test_a_cancel_may_carry_metadata():
    assert bytes(read(CANCEL, b"", b'{"metadata":{"a": 1.0}}').metadata) == b'{"a": 1.0}'


@pytest.mark.parametrize("match", [CANCEL, CREATE, RouteMatch("SubscribeToTask", {"id": PATH_ID})])
def test_a_body_of_another_shape_is_refused(match):
    assert refused(match, body=b"[]") == (ErrorKind.INVALID_PARAMS, "", "the body must be an object")
    for body in (b"{", b"\xff", b'{"metadata":{"a":"\xff"}}', b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"):
        assert refused(match, body=body)[0] is ErrorKind.PARSE


def test_a_push_config_takes_its_task_from_the_path():
    request = read(CREATE, b"", b'{"id":"c","taskId":"other","url":"https://x.example"}')
    assert (request.task_id, request.id, request.url) == (PATH_ID, "c", "https://x.example")
    assert refused(CREATE)[:2] == (ErrorKind.INVALID_PARAMS, "url")


def test_a_message_needs_a_body():
    assert refused(RouteMatch("SendMessage", {}))[0] is ErrorKind.PARSE
