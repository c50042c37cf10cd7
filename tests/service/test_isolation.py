"""A caller reaches its own: foreign and absent ids answer alike, and no word passes between sessions (AU-02, J1)."""

from __future__ import annotations

import json
import uuid

import pytest

from tests.service.a2a import answer, sending
from tests.service.wire import Reply

BY_ID = {
    "GetTask": lambda task: {"id": task},
    "CancelTask": lambda task: {"id": task},
    "SubscribeToTask": lambda task: {"id": task},
    "SendMessage": lambda task: sending("hi", task=task, messageId="m"),
    "SendStreamingMessage": lambda task: sending("hi", task=task, messageId="m"),
    "CreateTaskPushNotificationConfig": lambda task: {"taskId": task, "url": "https://example.com/hook"},
    "GetTaskPushNotificationConfig": lambda task: {"taskId": task, "id": "c"},
    "ListTaskPushNotificationConfigs": lambda task: {"taskId": task},
    "DeleteTaskPushNotificationConfig": lambda task: {"taskId": task, "id": "c"},
}
"""Every operation that names a task."""


def _anonymous(reply: Reply, task_id: str) -> str:
    return str(reply.comparable).replace(task_id, "<id>")


@pytest.mark.parametrize("method", BY_ID)
@pytest.mark.parametrize("text", ["hi", "ask", "long: foreign"])
def test_a_foreign_task_answers_exactly_as_an_absent_one(alice, bob, method, text):
    task = alice.send(text, immediately=text.startswith("long"))
    absent = task["id"][:2] + str(uuid.uuid4())[2:]
    foreign_reply = bob.exchange(method, BY_ID[method](task["id"]))
    absent_reply = bob.exchange(method, BY_ID[method](absent))
    assert _anonymous(foreign_reply, task["id"]) == _anonymous(absent_reply, absent)
    assert foreign_reply.status != 200 or "error" in foreign_reply.json
    after = alice.get(task["id"])
    assert after["history"] == task["history"]
    if text.startswith("long"):
        assert after["status"]["state"] == "TASK_STATE_WORKING"
        alice.call("CancelTask", {"id": task["id"]})
    else:
        assert after == task


def test_a_foreign_task_with_its_own_context_answers_as_an_absent_one(alice, bob):
    task = alice.send("ask")
    absent = str(uuid.uuid4())
    replies = [
        _anonymous(
            bob.exchange("SendMessage", sending("hi", task=identity, context=task["contextId"], messageId="m")),
            identity,
        )
        for identity in (task["id"], absent)
    ]
    assert replies[0] == replies[1]


def test_a_foreign_context_lists_exactly_as_an_absent_one(alice, bob):
    context = str(uuid.uuid4())
    alice.send("hi", context=context)
    foreign = bob.exchange("ListTasks", {"contextId": context})
    absent = bob.exchange("ListTasks", {"contextId": str(uuid.uuid4())})
    assert foreign.comparable == absent.comparable
    assert bob.read(foreign) == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}


def test_one_callers_list_holds_nothing_of_anothers(alice, bob):
    own = {alice.send("hi")["id"] for _ in range(3)}
    listed = {task["id"] for task in bob.call("ListTasks", {"pageSize": 100})["tasks"]}
    assert not own & listed
    assert own <= {task["id"] for task in alice.call("ListTasks", {"pageSize": 100})["tasks"]}


def test_two_callers_with_one_context_id_have_two_sessions(service, alice, bob):
    context = str(uuid.uuid4())
    alice.send("remember code 4711", context=context)
    task = bob.send("which code?", context=context)
    assert task["contextId"] == context
    assert answer(bob.send("count", context=context)) == "run 2"
    assert "4711" not in json.dumps(service.transcript("bob", context))
    assert "4711" in json.dumps(service.transcript("alice", context))
    assert "which code" not in json.dumps(service.transcript("alice", context))
    assert {each["id"] for each in bob.call("ListTasks", {"contextId": context})["tasks"]} >= {task["id"]}


def test_a_page_token_of_another_caller_opens_nothing(alice, bob):
    for _ in range(2):
        alice.send("hi")
    mine = {alice.send("hi")["id"] for _ in range(2)}
    token = alice.call("ListTasks", {"pageSize": 1})["nextPageToken"]
    outcome = bob.outcome(bob.exchange("ListTasks", {"pageSize": 100, "pageToken": token}))
    if isinstance(outcome, dict):
        assert not mine & {task["id"] for task in outcome["tasks"]}
    else:
        assert outcome.kind == "INVALID_PARAMS"


def test_scope_names_of_callers_and_contexts_cannot_meet(make_service):
    own = make_service()
    own.admit("a")
    own.admit("a-b")
    own.start()
    for name, context in (("a", "b_c"), ("a-b", "c"), ("a", "-b_c")):
        own.rpc(name).send(f"I am {name} in {context}", context=context)
    folders = sorted(path.name for path in (own.workspace / ".volcanic" / "sessions").iterdir())
    assert folders == ["folder-a2a-a-b_c", "folder-a2a-a_-b_c", "folder-a2a-a_b_c"]
