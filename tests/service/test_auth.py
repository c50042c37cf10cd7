"""Who may call: the key check on every operation, before the body and before any lookup (AU-03, AU-05)."""

from __future__ import annotations

import json
import uuid

import pytest

from tests.service.a2a import answer, sending, state_of
from tests.service.harness import eventually
from tests.service.wire import JsonRpcCaller, read_until

CALLS = {
    "SendMessage": sending("hi"),
    "SendStreamingMessage": sending("hi"),
    "GetTask": {"id": "?"},
    "ListTasks": {},
    "CancelTask": {"id": "?"},
    "SubscribeToTask": {"id": "?"},
    "CreateTaskPushNotificationConfig": {"taskId": "?", "url": "https://example.com/hook"},
    "GetTaskPushNotificationConfig": {"taskId": "?", "id": "c"},
    "ListTaskPushNotificationConfigs": {"taskId": "?"},
    "DeleteTaskPushNotificationConfig": {"taskId": "?", "id": "c"},
    "GetExtendedAgentCard": {},
}
"""Every operation; `?` stands for a task id."""


def _about(params, task_id):
    return {name: task_id if value == "?" else value for name, value in params.items()}


def _bad_keys(key):
    return ["", "wrong", key[:-1], key + "x", key.upper(), key + "\u00a0", f"{key},{key}", "\u00e4"]


def _unauthorized(reply):
    assert reply.status == 401, reply.body
    assert reply.headers["WWW-Authenticate"]
    assert reply.media_type == "application/json"
    error = reply.json["error"]
    assert set(reply.json) == {"error"}
    assert (error["code"], error["status"]) == (401, "UNAUTHENTICATED")
    assert error["message"]
    return reply.comparable


def test_without_a_valid_key_every_operation_is_refused_alike(service, alice):
    task = alice.send("long: stay", immediately=True)
    bodies = set()
    for method, params in CALLS.items():
        answers = set()
        for identity in (task["id"], str(uuid.uuid4())):
            for key in (None, *_bad_keys(alice.key)):
                stranger = type(alice)(service.endpoint, key or "")
                headers = {} if key is None else {"X-API-Key": key}
                stranger.headers = lambda headers=headers: {"A2A-Version": "1.0", **headers}
                reply = stranger.exchange(method, _about(params, identity))
                answers.add(str(_unauthorized(reply)))
                bodies.add(reply.body)
        assert len(answers) == 1, f"{method}: answers tell known from unknown ids, or keys apart"
    assert len(bodies) == 1, "the body is one for all"
    assert state_of(alice.get(task["id"])) == "WORKING"
    alice.call("CancelTask", {"id": task["id"]})


def test_a_bearer_token_is_as_good_as_the_header(service, alice):
    for scheme in ("Bearer", "bearer", "BEARER"):
        alice.headers = lambda scheme=scheme: {"Authorization": f"{scheme} {service.keys['alice']}"}
        assert answer(alice.send("hi")) == "hi"


@pytest.mark.parametrize(
    "value", ["Basic {key}", "{key}", "Bearer", "Bearer ", "Bearer x {key}", "Token {key}", "Bearer:{key}"]
)
def test_another_authorization_is_refused(service, alice, value):
    alice.headers = lambda: {"Authorization": value.format(key=service.keys["alice"])}
    _unauthorized(alice.exchange("ListTasks", {}))


@pytest.mark.parametrize("path", ["/a2a", "/a2a/v1/message:send", "/a2a/v1/message:stream"])
def test_the_key_is_checked_before_the_body_is_read(service, path):
    with service.endpoint.begin("POST", path, {"Content-Type": "application/json"}, length=10_000_000) as raw:
        raw.settimeout(5)
        assert read_until(raw, b"\r\n").startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 100_000])
def test_a_malformed_body_without_a_key_is_unauthorized_all_the_same(service, body):
    for path in ("/a2a", "/a2a/v1/message:send"):
        _unauthorized(service.endpoint.request("POST", path, body, {"Content-Type": "text/html", "A2A-Version": "9.9"}))


def test_what_needs_no_key(service):
    for path in ("/healthz", "/readyz", "/.well-known/agent-card.json"):
        assert service.endpoint.request("GET", path).status == 200
    for path in ("/a2a/v1/card", "/a2a/v1/extendedAgentCard", "/a2a/v1/tasks", "/a2a/v1/nothing"):
        _unauthorized(service.endpoint.request("GET", path))


def test_the_push_receiver_knows_nothing_and_asks_for_no_key(service):
    answers = {
        str(service.endpoint.request(verb, path, body, {"Content-Type": "application/json"}).comparable)
        for verb, body in (("POST", b"{}"), ("POST", b"\xff"), ("POST", b""))
        for path in ("/a2a/push/x", f"/a2a/push/{uuid.uuid4()}", "/a2a/push/a/b", "/a2a/push/%2e%2e")
    }
    assert len(answers) == 1
    assert next(iter(answers)).startswith("(404,")


def test_the_admin_pages_are_not_on_the_public_port(service, rest):
    for path in ("/admin/tree", "/admin/tree/", "/metrics", "/admin"):
        reply = service.endpoint.request("GET", path, None, rest.headers())
        assert reply.status == 404
        assert b"agents-0" not in reply.body


def test_callers_are_read_fresh_on_every_request(make_service):
    service = make_service().start()
    path = service.a2a / "callers.json"
    before = path.read_text()
    carol = JsonRpcCaller(service.endpoint, "k_carol_" + "0" * 20)
    for _ in range(20):
        _unauthorized(carol.exchange("ListTasks", {}))
        path.write_text(json.dumps([{"name": "carol", "key": carol.key}]))
        assert carol.call("ListTasks", {})["totalSize"] == 0
        assert service.rpc().exchange("ListTasks", {}).status == 401
        path.write_text(before)
        assert service.rpc().exchange("ListTasks", {}).status == 200
    path.unlink()
    _unauthorized(service.rpc().exchange("ListTasks", {}))


BROKEN_CALLERS = {
    "cut short": b'[{"name": "alice", "key": "@"',
    "no list": b'{"name": "alice", "key": "@"}',
    "empty": b"",
    "not utf-8": b'[{"name": "alice", "key": "@"}]\xff',
    "an empty list": b"[]",
    "a mode nobody knows": b'[{"name": "alice", "key": "@", "mode": "shared"}]',
    "a mode that is misspelt": b'[{"name": "alice", "key": "@", "mode": "Isolated "}]',
    "a bad name": b'[{"name": "Alice_1", "key": "@"}]',
    "a name with a line feed": b'[{"name": "alice\\n", "key": "@"}]',
    "the key twice in one file": b'[{"name": "alice", "key": "@"}, {"name": "bob", "key": "@"}]',
    "a key that is a number": b'[{"name": "alice", "key": 7}]',
}


def test_a_broken_callers_file_admits_nobody_and_is_named_in_the_log(make_service):
    service = make_service().start()
    path = service.a2a / "callers.json"
    good, key = path.read_bytes(), service.keys["alice"]
    for name, content in BROKEN_CALLERS.items():
        path.write_bytes(content.replace(b"@", key.encode()))
        _unauthorized(service.rpc().exchange("ListTasks", {}))
        path.write_bytes(good)
        assert service.rpc().exchange("ListTasks", {}).status == 200, name
    eventually(lambda: "callers.json" in service.log.read_text(), 5, "a warning names the file")
    path.unlink()
    path.mkdir()
    _unauthorized(service.rpc().exchange("ListTasks", {}))
    service.assert_no_key_shown()


def test_an_entry_that_is_skipped_does_not_take_the_others_with_it(make_service):
    service = make_service().start()
    skipped = [
        {"name": "alice", "key": "k_the_second_alice_0123456789"},
        {"name": "BAD", "key": "k_bad_0123456789abcdef"},
        {"name": "nokey", "key": ""},
    ]
    alice = {"name": "alice", "key": service.keys["alice"], "note": "kept", "future": 1}
    bob = {"name": "bob", "key": service.keys["bob"], "mode": "isolated"}
    (service.a2a / "callers.json").write_text(json.dumps([alice, *skipped, 7, bob]))
    for name in ("alice", "bob"):
        assert answer(service.rpc(name).send("hi")) == "hi"
    for entry in skipped:
        assert JsonRpcCaller(service.endpoint, entry["key"]).exchange("ListTasks", {}).status == 401


def test_a_key_that_two_workspaces_know_is_refused_and_both_owners_are_named(make_service):
    service = make_service(workspaces=("one", "two")).start()
    service.admit("carol", workspace=service.workspaces[1])
    assert answer(service.rpc("carol").send("hi")) == "hi"
    assert answer(service.rpc("alice").send("hi")) == "hi"
    task = service.rpc("carol").send("hi")
    assert (service.workspaces[1] / ".volcanic" / "a2a" / "tasks" / f"{task['id']}.json").exists()
    service.admit("twin", service.keys["alice"], workspace=service.workspaces[1])
    _unauthorized(service.rpc("alice").exchange("ListTasks", {}))
    eventually(lambda: "matches 2 callers" in service.log.read_text(), 5, "the warning is in the log")
    service.assert_no_key_shown()
