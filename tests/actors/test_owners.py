"""The edge's end: foreign and absent ids are alike, pages are merged, and streams go on over the next link."""

from __future__ import annotations

import json
from functools import partial

import pytest
import trio
from msgspec import Raw

from actors import frames, owner
from actors.messages import End, Event, ListTasks
from actors.owner import ResumingStream
from actors.slot_link import OpenCall, OutcomeUnknown
from tests.actors.kit import (
    CALLER,
    Later,
    cancel,
    decoded,
    drained,
    edge,
    get,
    listing,
    refused,
    send,
    state,
    subscribe,
)
from tests.actors.reader import Reader
from volcanic.protocol.errors import A2AError, ErrorKind
from volcanic.protocol.ids import mint_task_id, shard_of, shard_of_task_id

SCRIPT = {
    "rules": [
        {"textPrefix": "wait", "steps": [{"delay": 60}]},
        {"textPrefix": "ask", "steps": [{"end": "input-required", "text": "which?"}]},
    ]
}
ABSENT = mint_task_id(7, bytes(16))
STRANGE = ["../../etc/passwd", "x" * 36, ABSENT.upper(), ABSENT + "\n", f"{ABSENT}\0"]


def _whole(error):
    return (error.kind, error.message, error.field)


async def _refusals(slot, owners, task_id, caller):
    found = []
    for call in (
        owners.get_task(get(slot, task_id, caller), 5),
        owners.cancel_task(cancel(slot, task_id, caller), 5),
        _open(owners, subscribe(slot, task_id, caller)),
        owners.send_message(send(slot, "mine now", task_id=task_id, caller=caller), 5),
        owners.send_message(send(slot, "mine now", task_id=task_id, caller=caller, context_id="c1"), 5),
        _open(owners, send(slot, "mine now", task_id=task_id, caller=caller, stream=True)),
    ):
        with pytest.raises(A2AError) as caught:
            await call
        found.append(_whole(caught.value))
    return found


async def _open(owners, call):
    async with owners.stream(call, 5):
        return "opened"


async def test_foreign_and_absent_ids_are_refused_alike_by_each_call(slot, owners):
    """J1, I6: running, waiting and finished tasks of another caller, ids of nobody, and ids that are none."""
    tasks = [
        decoded(await owners.send_message(send(slot, text, context_id=f"c{n}", return_immediately=n == 0), 5))["task"]
        for n, text in enumerate(("wait", "ask", "echo"))
    ]
    before = [slot.record(task["id"]) for task in tasks]
    absent = await _refusals(slot, owners, ABSENT, "mallory")
    assert {kind for kind, _, _ in absent} == {ErrorKind.TASK_NOT_FOUND}
    for task_id in [*(task["id"] for task in tasks), *STRANGE]:
        assert await _refusals(slot, owners, task_id, "mallory") == absent, task_id
    assert [slot.record(task["id"]) for task in tasks] == before
    assert tasks[0]["id"] in slot.contexts.runs
    assert await owners.list_tasks(listing(slot, caller="mallory"), 5) == await owners.list_tasks(
        listing(slot, caller="nobody"), 5
    )
    assert await owners.list_tasks(listing(slot, caller="mallory", context_id="c1"), 5) == (
        await owners.list_tasks(listing(slot, caller="mallory", context_id="nowhere"), 5)
    )
    assert (await owners.list_tasks(listing(slot), 5)).total == 3


async def test_the_owner_itself_refuses_what_is_foreign_without_the_edges_help(slot):
    """The edge reads the file first; the owner may not rely on that."""
    async with edge(slot.path) as owners:
        running = send(slot, "wait", context_id="c", return_immediately=True)
        await owners.send_message(running, 5)
        parked = decoded(await owners.send_message(send(slot, "ask", context_id="d"), 5))["task"]
        (link,) = owners._links
        for task_id in (running.task_id, parked["id"], ABSENT):
            assert await refused(link.ask(get(slot, task_id, "mallory"))) is ErrorKind.TASK_NOT_FOUND


async def test_two_callers_in_contexts_of_one_name_share_nothing(slot, owners):
    mine = decoded(await owners.send_message(send(slot, "echo", context_id="c"), 5))["task"]
    theirs = decoded(
        await owners.send_message(send(slot, "wait", context_id="c", caller="bob", return_immediately=True), 5)
    )["task"]
    assert state(await owners.send_message(send(slot, "echo", context_id="c"), 5)) == "COMPLETED"
    rows = (await owners.list_tasks(listing(slot, context_id="c"), 5)).rows
    assert mine["id"] in {row.task_id for row in rows}
    assert theirs["id"] not in {row.task_id for row in rows}


async def test_a_workspace_that_is_not_served_has_no_tasks(slot, owners):
    call = send(slot, "echo")
    call.workspace = "/elsewhere"
    assert await refused(owners.send_message(call, 5)) is ErrorKind.UNAVAILABLE
    look = get(slot, call.task_id)
    look.workspace = "/elsewhere"
    assert await refused(owners.get_task(look, 5)) is ErrorKind.TASK_NOT_FOUND
    assert (await owners.list_tasks(ListTasks(workspace="/elsewhere", caller=CALLER, limit=5), 5)).total == 0


# -- several slots


def _owned_by(number, task_id):
    shard = shard_of_task_id(task_id)
    return shard is not None and shard % 2 == number


@pytest.fixture
def two(make_slot):
    """Two slots over the workspace of the first, each with every other shard."""
    slots = make_slot(SCRIPT, "one"), make_slot(SCRIPT, "two")
    for number, slot in enumerate(slots):
        slot.layout, slot.files = slots[0].layout, slots[0].files
        slot.owns = partial(_owned_by, number)
    return slots


async def test_a_page_is_merged_over_all_slots_in_one_order(two):
    first, second = two
    async with first.alive(), second.alive(), edge(first.path, second.path, files=first.files) as owners:
        ids = [decoded(await owners.send_message(send(first, "echo"), 5))["task"]["id"] for _ in range(12)]
        assert any(_owned_by(0, task_id) for task_id in ids)
        assert any(_owned_by(1, task_id) for task_id in ids)
        seen, before = [], None
        while True:
            page = await owners.list_tasks(listing(first, limit=5, before=before), 5)
            assert page.total == 12
            seen += [(row.timestamp, row.task_id) for row in page.rows]
            if len(page.rows) < 5:
                break
            before = seen[-1]
        assert seen == sorted(seen, reverse=True)
        assert sorted(task_id for _, task_id in seen) == sorted(ids)


async def test_a_page_without_one_of_the_slots_is_unavailable_within_its_deadline_and_never_partial(two):
    first, second = two
    async with first.alive(), edge(first.path, second.path, files=first.files) as owners:
        call = send(first, "echo", context_id=next(c for c in map(str, range(99)) if _slot_of(first, c) == 0))
        assert state(await owners.send_message(call, 5)) == "COMPLETED"
        assert not owners.ready()
        began = trio.current_time()
        assert await refused(owners.list_tasks(listing(first), 0.3)) is ErrorKind.UNAVAILABLE
        assert trio.current_time() - began < 1
        async with second.alive():
            with trio.fail_after(5):
                assert (await owners.list_tasks(listing(first), 5)).total == 1
            assert owners.ready()


def _slot_of(slot, context_id):
    return shard_of(CALLER, context_id) % 2


async def test_a_call_to_a_slot_that_is_down_ends_at_its_deadline(two):
    first, second = two
    async with first.alive(), edge(first.path, second.path, files=first.files) as owners:
        call = send(first, "echo", context_id=next(c for c in map(str, range(99)) if _slot_of(first, c) == 1))
        assert await refused(owners.send_message(call, 0.2)) is ErrorKind.UNAVAILABLE
        call.stream = True
        with pytest.raises(A2AError) as caught:
            async with owners.stream(call, 0.2):
                pass
        assert caught.value.kind is ErrorKind.UNAVAILABLE


async def test_a_slot_that_refuses_its_share_makes_the_page_a_plain_refusal(two, monkeypatch):
    first, second = two
    async with first.alive(), second.alive(), edge(first.path, second.path, files=first.files) as owners:

        async def broken(_call):
            await trio.lowlevel.checkpoint()
            raise A2AError(ErrorKind.INTERNAL, "The tasks could not be read")

        monkeypatch.setattr(second.contexts, "list_tasks", broken)
        with pytest.raises(A2AError, match="could not be read") as caught:
            await owners.list_tasks(listing(first), 5)
        assert caught.value.kind is ErrorKind.INTERNAL
        monkeypatch.setattr(first.contexts, "list_tasks", broken)
        assert await refused(owners.list_tasks(listing(first), 5)) is ErrorKind.INTERNAL


# -- frames that are too long


async def test_an_answer_too_long_for_a_frame_is_refused_and_the_link_stays_up(slot, owners, monkeypatch):
    task = decoded(await owners.send_message(send(slot, "ask" + "x" * 5000), 5))["task"]
    small = decoded(await owners.send_message(send(slot, "ask"), 5))["task"]
    async with trio.open_nursery() as nursery:
        other = Later(nursery, owners.send_message, send(slot, "wait"), 20)
        monkeypatch.setattr(frames, "FRAME_LIMIT", 4000)
        with pytest.raises(A2AError, match="too long") as caught:
            await owners.get_task(get(slot, task["id"]), 5)
        assert caught.value.kind is ErrorKind.INTERNAL
        with trio.fail_after(5):
            async with owners.stream(subscribe(slot, task["id"]), 5) as stream:
                events, reason = await drained(stream)
        assert (events, reason) == ([], "lost")
        assert await refused(owners.send_message(send(slot, "y" * 5000), 5)) is ErrorKind.BODY_TOO_LARGE
        assert state(await owners.get_task(get(slot, small["id"]), 5)) == "INPUT_REQUIRED"
        assert not other.done
        nursery.cancel_scope.cancel()


# -- streams over the next link


class FakeLink:
    """A link whose streams give what a script says: events, the link's end, a refusal, or silence."""

    hello = None
    draining = False

    def __init__(self, *streams):
        self.streams = list(streams)
        self.calls = []

    async def open_stream(self, call):
        self.calls.append(call)
        await trio.lowlevel.checkpoint()
        script = self.streams.pop(0)
        if isinstance(script, A2AError):
            raise script
        return FakeStream(script)


class FakeStream:
    def __init__(self, script):
        self.script = list(script)

    async def receive(self):
        await trio.lowlevel.checkpoint()
        await trio.sleep(1)
        item = self.script.pop(0)
        if isinstance(item, Exception):
            raise item
        return item

    def close(self):
        pass


def _task(version, state_name, text):
    task: dict[str, object] = {"id": ABSENT, "contextId": "c", "status": {"state": state_name, "timestamp": "now"}}
    if text:
        task["artifacts"] = [{"artifactId": "response", "parts": [{"text": text}]}]
    return Event(id=1, version=version, payload=Raw(json.dumps({"task": task}).encode()))


def _text(text):
    update = {
        "taskId": ABSENT,
        "contextId": "c",
        "artifact": {"artifactId": "response", "parts": [{"text": text}]},
        "append": True,
    }
    return Event(id=1, payload=Raw(json.dumps({"artifactUpdate": update}).encode()))


def _status(version, state_name):
    update = {"taskId": ABSENT, "contextId": "c", "status": {"state": state_name, "timestamp": "now"}}
    return Event(id=1, version=version, payload=Raw(json.dumps({"statusUpdate": update}).encode()))


WORKING, DONE = "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"
CUT = OutcomeUnknown()


@pytest.mark.parametrize("patience", [0.4, 0.9, 1.0, 1.4, 100.0])
async def test_a_stream_read_with_whatever_patience_has_one_beginning_over_several_links(
    slot, autojump_clock, patience
):
    """A reader that gives up waiting now and then, as one does that sends comments, loses and doubles nothing."""
    link = FakeLink(
        [_task(1, WORKING, ""), _text("one "), CUT],
        [_task(1, WORKING, "one two "), CUT],
        [CUT],
        [_task(2, WORKING, "one two three"), _text(" four"), _status(3, DONE), End(id=1)],
    )
    stream = ResumingStream(link, send(slot, "x", stream=True), None)  # type: ignore[arg-type]
    await stream.open()
    reader = Reader()
    with trio.fail_after(1000):
        while True:
            frame = None
            with trio.move_on_after(patience):
                frame = await stream.receive()
            if isinstance(frame, End):
                break
            if frame is not None:
                reader.event(frame.version, frame.payload)
            elif patience <= 1:
                patience = 1.5  # a little more of it, so that something comes at all
    assert reader.artifacts == {"response": "one two three four"}
    assert reader.states == [WORKING, WORKING, DONE]
    assert [call.again for call in link.calls] == [False, True, True, True]


async def test_a_stream_whose_task_is_refused_on_the_next_link_is_lost_and_says_so(slot, autojump_clock):
    link = FakeLink([_task(1, WORKING, ""), CUT], A2AError(ErrorKind.TASK_NOT_FOUND))
    stream = ResumingStream(link, subscribe(slot, ABSENT), None)  # type: ignore[arg-type]
    await stream.open()
    assert isinstance(await stream.receive(), Event)
    end = await stream.receive()
    assert isinstance(end, End)
    assert end.reason == "lost"


async def test_a_stream_whose_owner_fails_after_it_accepted_is_lost_and_does_not_hang(slot, autojump_clock):
    link = FakeLink([_task(1, WORKING, ""), A2AError(ErrorKind.UNAVAILABLE)])
    stream = ResumingStream(link, subscribe(slot, ABSENT), None)  # type: ignore[arg-type]
    await stream.open()
    await stream.receive()
    with trio.fail_after(10):
        end = await stream.receive()
    assert isinstance(end, End)
    assert end.reason == "lost"


async def test_a_cancel_whose_answer_is_lost_is_answered_from_what_became_of_the_task(slot, owners, monkeypatch):
    parked = decoded(await owners.send_message(send(slot, "ask"), 5))["task"]
    (link,) = owners._links
    real, lost = link.ask, []

    async def losing(call):
        answer = await real(call)
        if not lost:
            lost.append(call)
            raise OutcomeUnknown
        return answer

    monkeypatch.setattr(link, "ask", losing)
    # The edge answers a finished task from its file; here the owner has to.
    monkeypatch.setattr(owner, "is_terminal", lambda _state: False)
    assert state(await owners.cancel_task(cancel(slot, parked["id"]), 5)) == "CANCELED"
    assert lost
    assert slot.record(parked["id"])["version"] == 3


async def test_a_refusal_after_a_stream_was_accepted_ends_it_after_what_came():
    call = OpenCall()
    call.result = Raw(b"null")
    call.events.append(_status(1, WORKING))
    call.error = A2AError(ErrorKind.UNAVAILABLE)
    assert isinstance(await call.next(), Event)
    with pytest.raises(A2AError), trio.fail_after(2):
        await call.next()
