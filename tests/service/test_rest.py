"""The HTTP+JSON binding: paths, verbs, content types, errors (field reports RE-01, RE-03, RE-04, spec §11)."""

from __future__ import annotations

import uuid

import pytest

from tests.service.a2a import answer, saying, sending, state_of
from tests.service.wire import read_until


def _info(reply):
    assert reply.media_type == "application/json"
    error = reply.json["error"]
    assert error["code"] == reply.status
    return error


def test_a_message_to_a_finished_task_is_unsupported_and_leaves_no_trace(rest):
    task = rest.send("hi")
    reply = rest.http("POST", "/message:send", sending("again", task=task["id"]))
    assert reply.status == 400
    assert _info(reply)["details"][0]["reason"] == "UNSUPPORTED_OPERATION"
    assert rest.get(task["id"]) == task


def test_every_error_has_its_own_reason_and_status(service, rest):
    task = rest.send("hi")
    odd = sending("hi")
    odd["message"]["parts"][0]["mediaType"] = "application/x-nope"
    cases = [
        (rest.http("GET", "/tasks", None, A2A_Version="9.9"), "VERSION_NOT_SUPPORTED", 400),
        (rest.http("POST", "/message:send", odd), "CONTENT_TYPE_NOT_SUPPORTED", 400),
        (rest.http("POST", f"/tasks/{task['id']}:cancel", {}), "TASK_NOT_CANCELABLE", 400),
        (rest.http("GET", f"/tasks/{uuid.uuid4()}"), "TASK_NOT_FOUND", 404),
        (rest.http("GET", f"/tasks/{task['id']}/pushNotificationConfigs"), "PUSH_NOTIFICATION_NOT_SUPPORTED", 400),
    ]
    for reply, reason, status in cases:
        error = _info(reply)
        assert (error["details"][0]["reason"], reply.status) == (reason, status)
        assert error["status"].isupper()
        assert error["message"]


@pytest.mark.parametrize("verb", ["POST", "GET"])
def test_subscribe_is_served_by_either_verb(service, rest, verb):
    task = rest.send("long: subscribe", immediately=True)
    with service.endpoint.begin(verb, f"/a2a/v1/tasks/{task['id']}:subscribe", rest.headers()) as raw:
        received = read_until(raw, b'"contextId"')
    assert b"text/event-stream" in received
    first = received.partition(b"data:")[2].strip()
    assert first.startswith(b'{"task":')
    assert task["id"].encode() in first
    assert state_of(rest.call("CancelTask", {"id": task["id"]})) == "CANCELED"


def test_a_verb_suffix_is_never_part_of_an_id(rest):
    task = rest.send("long: suffix", immediately=True)
    for suffix in (":cancel", ":frobnicate", ":"):
        reply = rest.http("GET", f"/tasks/{task['id']}{suffix}")
        assert reply.status in {404, 405}
        assert task["id"].encode() not in reply.body
        assert suffix != ":cancel" or b"TASK_NOT_FOUND" not in reply.body, "the suffix was looked up as part of an id"
    assert state_of(rest.get(task["id"])) == "WORKING"
    rest.call("CancelTask", {"id": task["id"]})


def test_cancel_needs_neither_body_nor_content_type(service, rest):
    task = rest.send("long: bare cancel", immediately=True)
    reply = service.endpoint.request("POST", f"/a2a/v1/tasks/{task['id']}:cancel", None, {"X-API-Key": rest.key})
    assert reply.status == 200
    assert state_of(reply.json) == "CANCELED"


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        ("application/a2a+json", "application/a2a+json"),
        ("application/json", "application/json"),
        ("application/json; charset=utf-8", "application/json"),
        ("Application/A2A+JSON", "application/a2a+json"),
    ],
)
def test_an_answer_comes_in_the_type_of_its_request(rest, sent, answered):
    reply = rest.http("POST", "/message:send", sending("hi"), Content_Type=sent)
    assert reply.media_type == answered
    assert answer(reply.json["task"]) == "hi"


def test_an_answer_to_a_request_without_a_body_is_a2a_json(rest):
    assert rest.http("GET", "/tasks").media_type == "application/a2a+json"


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "multipart/form-data"])
def test_another_content_type_is_415(rest, kind):
    reply = rest.http("POST", "/message:send", sending("hi"), Content_Type=kind)
    assert reply.status == 415
    assert _info(reply)["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"[]", b'"hi"', b"null", b"{}"])
def test_a_body_that_is_no_request_is_a_bad_request(rest, body):
    reply = rest.http("POST", "/message:send", body)
    assert reply.status == 400
    assert _info(reply)["status"] == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/nothing",
        "/message",
        "/message:nothing",
        "/tasks/",
        "/tasks/a/b",
        "/acme/message:send",
        "//tasks",
        "/..%2fa2a",
    ],
)
@pytest.mark.parametrize("verb", ["GET", "POST"])
def test_an_unknown_path_is_not_found_as_json(rest, verb, path):
    reply = rest.http(verb, path, b"{}" if verb == "POST" else None)
    assert reply.status in {404, 405}
    assert _info(reply)["message"]


@pytest.mark.parametrize(
    ("verb", "path", "allowed"),
    [
        ("GET", "/message:send", "POST"),
        ("DELETE", "/tasks", "GET"),
        ("PUT", "/message:stream", "POST"),
        ("POST", "/tasks", "GET"),
    ],
)
def test_a_wrong_verb_is_405_and_says_which_is_right(rest, verb, path, allowed):
    reply = rest.http(verb, path)
    assert reply.status == 405
    assert allowed in reply.headers["Allow"]
    _info(reply)


@pytest.mark.parametrize(
    "query",
    ["pageSize=0", "pageSize=-1", "pageSize=101", "pageSize=x", "pageSize=2.5", "pageSize=1000000000", "pageSize=",
     "historyLength=-5", "status=TASK_STATE_RUNNING", "status=working", "includeArtifacts=maybe", "includeArtifacts=1",
     "statusTimestampAfter=yesterday", "pageToken=nonsense", "pageSize=%31%30%30%30"],
)  # fmt: skip
def test_a_bad_query_parameter_is_refused_by_name(rest, query):
    reply = rest.http("GET", f"/tasks?{query}")
    assert reply.status == 400
    assert query.partition("=")[0] in str(_info(reply)["details"])


def test_query_parameters_are_read_as_their_types(rest):
    context = str(uuid.uuid4())
    task = rest.send("hi", context=context)
    reply = rest.http(
        "GET", f"/tasks?contextId={context}&pageSize=1&includeArtifacts=true&status=TASK_STATE_COMPLETED&new=1"
    )
    page = reply.json
    assert [each["id"] for each in page["tasks"]] == [task["id"]]
    assert page["pageSize"] == 1
    assert answer(page["tasks"][0]) == "hi"


def test_history_length_of_get_is_a_query_parameter(rest):
    task = rest.send("ask")
    rest.send("monday", task=task["id"])
    whole = rest.get(task["id"])["history"]
    assert len(whole) > 2
    assert rest.http("GET", f"/tasks/{task['id']}?historyLength=1").json["history"] == whole[-1:]
    assert "history" not in rest.http("GET", f"/tasks/{task['id']}?historyLength=0").json


def test_a_direct_reply_is_a_message(rest):
    value = rest.http("POST", "/message:send", {"message": saying("direct")}).json
    assert set(value) == {"message"}
    assert value["message"]["role"] == "ROLE_AGENT"
    assert value["message"]["parts"] == [{"text": "a plain reply"}]
    assert value["message"]["contextId"]
