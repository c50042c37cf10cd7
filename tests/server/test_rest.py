import json

import pytest

from actors.messages import End
from tests.server.fakes import TASK_ID, FakeStream, event, task
from volcanic.protocol.errors import A2AError, ErrorKind
from volcanic.server.settings import ServerSettings

MESSAGE = {"role": "ROLE_USER", "messageId": "m1", "parts": [{"text": "hi"}]}
SEND = json.dumps({"message": MESSAGE})


def fields(answer) -> list[str]:
    return [
        violation["field"] for detail in answer.json["error"]["details"][1:] for violation in detail["fieldViolations"]
    ]


async def test_send_message(server):
    answer = await server.request("POST", "/a2a/v1/message:send", SEND, {"Content-Type": "application/a2a+json"})
    assert (answer.status, answer.headers["content-type"]) == (200, "application/a2a+json")
    assert answer.json["task"]["id"] == server.owners.calls[0][0].task_id


@pytest.mark.parametrize(
    ("headers", "content_type"),
    [
        ({}, "application/a2a+json"),
        ({"Content-Type": "application/json"}, "application/json"),
        ({"Content-Type": "application/json; charset=utf-8"}, "application/json"),
        ({"Accept": "application/json"}, "application/json"),
        ({"Accept": "*/*"}, "application/a2a+json"),
        ({"Accept": "application/a2a+json, application/json"}, "application/a2a+json"),
    ],
)
async def test_the_answer_has_the_type_of_the_request(server, headers, content_type):
    answer = await server.request("GET", f"/a2a/v1/tasks/{TASK_ID}", headers=headers)
    assert (answer.status, answer.headers["content-type"]) == (200, content_type)


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "application/xml"])
async def test_another_type_is_415(server, content_type):
    answer = await server.request("POST", "/a2a/v1/message:send", SEND, {"Content-Type": content_type})
    assert (answer.status, answer.headers["content-type"]) == (415, "application/json")
    assert (answer.json["error"]["code"], server.owners.calls) == (415, [])


async def test_get_task_and_cancel_without_a_body(server):
    got = await server.request("GET", f"/a2a/v1/tasks/{TASK_ID}?historyLength=2")
    assert (got.status, got.json["id"]) == (200, TASK_ID)
    assert server.owners.calls[0][0].history_length == 2
    canceled = await server.request("POST", f"/a2a/v1/tasks/{TASK_ID}:cancel")
    assert (canceled.status, canceled.json["status"]["state"]) == (200, "TASK_STATE_CANCELED")


async def test_a_verb_is_never_part_of_an_id(server):
    assert (await server.request("GET", f"/a2a/v1/tasks/{TASK_ID}:cancel")).status == 405
    assert (await server.request("GET", f"/a2a/v1/tasks/{TASK_ID}:nothing")).status == 404
    assert server.owners.calls == []


async def test_list_tasks_reads_its_query(server):
    answer = await server.request(
        "GET", "/a2a/v1/tasks?contextId=c-1&pageSize=3&includeArtifacts=true&status=TASK_STATE_FAILED"
    )
    assert answer.json == {"tasks": [], "nextPageToken": "", "pageSize": 3, "totalSize": 0}
    call = server.owners.calls[0][0]
    assert (call.context_id, call.limit, call.artifacts, call.state) == ("c-1", 4, True, "TASK_STATE_FAILED")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("pageSize=0", "pageSize"),
        ("pageSize=101", "pageSize"),
        ("pageSize=x", "pageSize"),
        ("pageSize=2.5", "pageSize"),
        ("historyLength=-5", "historyLength"),
        ("status=TASK_STATE_RUNNING", "status"),
        ("pageToken=nope", "pageToken"),
        ("includeArtifacts=yes", "includeArtifacts"),
        ("statusTimestampAfter=monday", "statusTimestampAfter"),
    ],
)
async def test_a_query_at_fault_names_its_parameter(server, query, field):
    answer = await server.request("GET", f"/a2a/v1/tasks?{query}")
    assert (answer.status, fields(answer)) == (400, [field])


@pytest.mark.parametrize(
    ("kind", "status", "reason"),
    [
        (ErrorKind.TASK_NOT_FOUND, 404, "TASK_NOT_FOUND"),
        (ErrorKind.TASK_NOT_CANCELABLE, 400, "TASK_NOT_CANCELABLE"),
        (ErrorKind.UNSUPPORTED_OPERATION, 400, "UNSUPPORTED_OPERATION"),
        (ErrorKind.INVALID_AGENT_RESPONSE, 500, "INVALID_AGENT_RESPONSE"),
        (ErrorKind.UNAVAILABLE, 503, "UNAVAILABLE"),
        (ErrorKind.LIMITED, 429, "LIMITED"),
    ],
)
async def test_each_refusal_has_its_status_and_reason(server, kind, status, reason):
    server.owners.refusal = A2AError(kind)
    answer = await server.request("POST", f"/a2a/v1/tasks/{TASK_ID}:cancel")
    error = answer.json["error"]
    assert (answer.status, error["code"], error["details"][0]["reason"]) == (status, status, reason)
    assert error["details"][0]["domain"] == "a2a-protocol.org"
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"[]", b"{}", b'{"message":[]}', b'{"message":{}}']
)
async def test_a_body_at_fault_is_400(server, body):
    answer = await server.request("POST", "/a2a/v1/message:send", body, {"Content-Type": "application/json"})
    assert answer.status == answer.json["error"]["code"] == 400
    assert server.owners.calls == []


async def test_version_media_type_and_size_are_checked_here_too(start):
    server = await start(ServerSettings(body_bytes=2000))
    old = await server.request("POST", "/a2a/v1/message:send", SEND, {"A2A-Version": "9.9"})
    assert (old.status, old.json["error"]["details"][0]["reason"]) == (400, "VERSION_NOT_SUPPORTED")
    parts = [{"text": "x", "mediaType": "application/x-nope"}]
    nope = await server.request("POST", "/a2a/v1/message:send", json.dumps({"message": {**MESSAGE, "parts": parts}}))
    assert (nope.status, nope.json["error"]["details"][0]["reason"]) == (400, "CONTENT_TYPE_NOT_SUPPORTED")
    large = await server.request("POST", "/a2a/v1/message:send", b"x" * 2001)
    assert (large.status, large.json["error"]["code"]) == (413, 413)


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/a2a/v1", 404, None),
        ("GET", "/a2a/v1/", 404, None),
        ("GET", "/a2a/v1/nothing", 404, None),
        ("GET", "/a2a/v1/tenant/tasks", 404, None),
        ("DELETE", "/a2a/v1/tasks", 405, "GET"),
        ("GET", "/a2a/v1/message:send", 405, "POST"),
    ],
)
async def test_what_is_not_there(server, method, path, status, allow):
    answer = await server.request(method, path)
    assert (answer.status, answer.json["error"]["code"], answer.headers.get("allow")) == (status, status, allow)


async def test_push_configs_are_refused(server):
    path = f"/a2a/v1/tasks/{TASK_ID}/pushNotificationConfigs"
    for method, target, body in [
        ("POST", path, '{"url":"https://e.example/"}'),
        ("GET", path, None),
        ("GET", path + "/x", None),
        ("DELETE", path + "/x", None),
    ]:
        answer = await server.request(method, target, body)
        assert (answer.status, answer.json["error"]["details"][0]["reason"]) == (400, "PUSH_NOTIFICATION_NOT_SUPPORTED")


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_subscribe_by_both_verbs(server, method):
    snapshot = b'{"task":' + bytes(task("TASK_STATE_WORKING")) + b"}"
    server.owners.streams.append(FakeStream(event(snapshot, 4), End(id=1)))
    answer = await server.request(method, f"/a2a/v1/tasks/{TASK_ID}:subscribe", headers={"Last-Event-ID": "3"})
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream")
    assert answer.body == b"id: 4\ndata: " + snapshot + b"\n\n"
    assert server.owners.calls[0][0].last_event_id == 3


async def test_the_extended_card(server):
    answer = await server.request("GET", "/a2a/v1/extendedAgentCard")
    assert (answer.status, answer.json["capabilities"]["extendedAgentCard"]) == (200, True)


async def test_an_unexpected_failure(server, captured):
    server.owners.failure = RuntimeError("secret detail")
    answer = await server.request("GET", f"/a2a/v1/tasks/{TASK_ID}")
    assert (answer.status, answer.json["error"]["status"]) == (500, "INTERNAL")
    assert b"secret" not in answer.body
    assert captured
