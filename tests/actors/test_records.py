"""Records, artifacts and what is shown of them: pure functions, on copies, and each change one version on."""

from __future__ import annotations

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from actors import artifacts, records, rendering
from actors.artifacts import ResponseText, merge, with_response
from volcanic.protocol.types import Artifact, Message, Part, Role, Task, TaskState, TaskStatus
from volcanic.storage.tasks import RunStamp

STAMP = RunStamp(boot="boot", slot="agents-0", incarnation=3)
LATER = RunStamp(boot="boot", slot="agents-0", incarnation=4)


def user(text, message_id="m", **more):
    return Message(message_id=message_id, role=Role.USER, parts=[Part(text=text)], **more)


def fresh():
    return records.fresh(
        "alice", "op1", "task", "context", user("hello", metadata=msgspec.Raw(b'{"n":1e999}')), STAMP, 1.5
    )


def texts(task):
    return [message.parts[0].text for message in task.history]


def test_a_new_task_works_at_version_one_and_keeps_the_message_with_where_it_ended_up():
    record = fresh()
    assert (record.caller, record.op, record.version, record.run) == ("alice", "op1", 1, STAMP)
    assert record.created == record.updated == record.task.status.timestamp == "1970-01-01T00:00:01.500Z"
    assert record.task.status.state is TaskState.WORKING
    (message,) = record.task.history
    assert (message.task_id, message.context_id) == ("task", "context")
    assert bytes(message.metadata) == b'{"n":1e999}'


def test_a_continued_task_has_the_question_in_its_history_before_the_answer():
    asked = records.with_status(fresh(), TaskState.INPUT_REQUIRED, "which day?", 2.0)
    before = msgspec.json.encode(asked)
    record = records.continued(asked, "op2", user("monday", "m2"), LATER, 3.0)
    assert texts(record.task) == ["hello", "which day?", "monday"]
    assert record.task.history[1].role is Role.AGENT
    assert (record.op, record.run, record.version) == ("op2", LATER, 3)
    assert record.created == asked.created
    assert record.updated == "1970-01-01T00:00:03.000Z"
    assert record.task.status == TaskStatus(state=TaskState.WORKING, timestamp=record.updated)
    assert msgspec.json.encode(asked) == before, "the record that is still the stored one was changed"


def test_a_continued_task_that_asked_nothing_gains_the_answer_alone():
    asked = records.with_status(fresh(), TaskState.AUTH_REQUIRED, "", 2.0)
    assert texts(records.continued(asked, "op2", user("ok"), LATER, 3.0).task) == ["hello", "ok"]


@given(st.lists(st.sampled_from(["status", "artifact", "ask"]), max_size=8))
def test_each_change_is_one_version_on_and_leaves_the_record_before_it_alone(changes):
    record = fresh()
    for number, change in enumerate(changes, start=2):
        if change == "ask":
            record = records.with_status(record, TaskState.INPUT_REQUIRED, "?", float(number))
        before = msgspec.json.encode(record)
        if change == "status":
            new = records.with_status(record, TaskState.WORKING, "thinking", float(number))
        elif change == "artifact":
            more = merge(record.task.artifacts, Artifact(artifact_id="a", parts=[Part(text="x")]), append=True)
            new = records.advanced(record, msgspec.structs.replace(record.task, artifacts=more), float(number))
        else:
            new = records.continued(record, "op", user("!"), LATER, float(number))
        assert msgspec.json.encode(record) == before
        assert new.version == record.version + 1
        assert new.task.id == "task"
        record = new
    assert record.created == "1970-01-01T00:00:01.500Z"


def test_unknown_members_and_webhooks_survive_every_change():
    record = msgspec.structs.replace(fresh(), unknown={"later": msgspec.Raw(b"[1]")})
    asked = records.with_status(record, TaskState.INPUT_REQUIRED, "?", 2.0)
    assert records.continued(asked, "op", user("!"), LATER, 3.0).unknown == record.unknown


# -- artifacts


def piece(artifact_id, text):
    return Artifact(artifact_id=artifact_id, name=artifact_id, parts=[Part(text=text)])


def _text(chunk):
    return chunk.artifact.parts[0].text


pieces = st.lists(st.tuples(st.sampled_from("abc"), st.text(max_size=5), st.booleans()), max_size=12)


@given(pieces)
def test_merging_pieces_is_what_a_reader_of_the_events_does(script):
    found: list[Artifact] = []
    model: dict[str, list[str]] = {}
    for artifact_id, text, append in script:
        before = msgspec.json.encode(found)
        new = merge(found, piece(artifact_id, text), append=append)
        assert msgspec.json.encode(found) == before
        found = new
        if append:
            model.setdefault(artifact_id, []).append(text)  # an append to what is not there creates it
        else:
            model[artifact_id] = [text]
    assert {artifact.artifact_id: [part.text for part in artifact.parts] for artifact in found} == model
    assert [artifact.artifact_id for artifact in found] == list(model)


@given(st.lists(st.one_of(st.text(max_size=9), st.sampled_from(["RESTART", "FLUSH"])), max_size=20), st.booleans())
def test_chunks_of_the_response_add_up_to_the_final_text(script, matches):
    response = ResponseText()
    seen = ""
    current = ""
    for step in script:
        chunk = None
        if step == "RESTART":
            response.restart()
            current = ""
        elif step == "FLUSH":
            chunk = response.flush()
        else:
            response.add(step)
            current += step
        if chunk is not None:
            assert not chunk.last
            seen = (seen if chunk.append else "") + _text(chunk)
            assert seen == response.text()
    final = current if matches else current + "!"
    last = response.finish(final)
    if not final:
        assert last is None
        return
    assert last is not None
    assert last.last
    assert (seen if last.append else "") + _text(last) == final


def test_text_asks_to_be_flushed_when_enough_waits():
    response = ResponseText()
    assert not response.add("x" * (artifacts.FLUSH_CHARACTERS - 1))
    assert response.add("x")
    assert response.flush() is not None
    assert not response.add("x")


def test_the_final_response_takes_the_place_of_any_before_it():
    others = [piece("a", "1"), piece("response", "old"), piece("b", "2")]
    assert [artifact.artifact_id for artifact in with_response(others, "new")] == ["a", "b", "response"]
    assert with_response(others, "new")[-1].parts[0].text == "new"
    assert [artifact.artifact_id for artifact in with_response(others, "")] == ["a", "b"]


# -- rendering


def task_with(history):
    return Task(
        id="t",
        context_id="c",
        status=TaskStatus(state=TaskState.COMPLETED, timestamp="now"),
        history=[user(str(number)) for number in range(history)],
    )


@given(st.integers(0, 6), st.none() | st.integers(0, 8))
def test_a_trimmed_history_is_its_newest_end_and_the_task_itself_stays_whole(messages, length):
    task = task_with(messages)
    shown = json.loads(rendering.task_json(task, length))
    kept = messages if length is None else min(length, messages)
    assert [message["parts"][0]["text"] for message in shown.get("history", [])] == [
        str(number) for number in range(messages - kept, messages)
    ]
    assert ("history" in shown) is (kept > 0)
    assert len(task.history) == messages


def test_each_result_and_event_has_exactly_one_member_and_names_its_task_and_context():
    task = task_with(1)
    assert json.loads(rendering.task_result(task)) == {"task": json.loads(rendering.task_json(task))}
    assert list(json.loads(rendering.message_result(records.direct_message("c", "hi")))) == ["message"]
    status = json.loads(rendering.status_event(task))
    assert status == {
        "statusUpdate": {
            "taskId": "t",
            "contextId": "c",
            "status": {"state": "TASK_STATE_COMPLETED", "timestamp": "now"},
        }
    }
    event = json.loads(rendering.artifact_event(task, piece("a", "x"), append=True, last_chunk=True))["artifactUpdate"]
    assert (event["taskId"], event["contextId"], event["append"], event["lastChunk"]) == ("t", "c", True, True)


def test_a_task_without_a_context_is_shown_with_an_empty_one_and_not_with_a_marker():
    task = msgspec.structs.replace(task_with(0), context_id=UNSET)
    assert json.loads(rendering.status_event(task))["statusUpdate"]["contextId"] == ""


def test_a_direct_message_is_the_agents_and_belongs_to_its_context_and_to_no_task():
    message = json.loads(rendering.message_result(records.direct_message("c", "hi")))["message"]
    assert message["role"] == "ROLE_AGENT"
    assert message["contextId"] == "c"
    assert "taskId" not in message
