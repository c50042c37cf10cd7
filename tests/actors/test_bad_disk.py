"""A disk that fails at any call: nothing is acknowledged that is not stored, and afterwards all goes on (C3, C4)."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import trio

from actors.messages import Event
from tests.actors.disks import Faulty
from tests.actors.kit import cancel, decoded, edge, get, listing, send, state, until
from tests.actors.reader import texts_of
from volcanic.protocol.errors import A2AError, ErrorKind

SCRIPT = {
    "rules": [
        {"textPrefix": "count", "steps": [{"text": "run {n}"}]},
        {"textPrefix": "note", "steps": [{"status": "thinking"}, {"text": "noted"}]},
        {
            "textPrefix": "file",
            "steps": [{"artifact": {"artifactId": "f", "parts": [{"text": "x"}], "lastChunk": True}}],
        },
        {"textPrefix": "ask", "steps": [{"end": "input-required", "text": "which?"}]},
        {"textPrefix": "direct", "steps": [{"message": "hello"}]},
    ]
}
TERMINAL = {"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED"}
MOST_CALLS = 60


class Client:
    """Does a bit of everything, takes refusals as they come, and keeps what was acknowledged."""

    def __init__(self, slot, owners):
        self.slot = slot
        self.owners = owners
        self.refusals: list[A2AError] = []
        self.ended: dict[str, dict] = {}
        self.shown: dict[str, int] = {}

    async def run(self):
        await self.ask(send(self.slot, "count", context_id="a"))
        await self.watch(send(self.slot, "note", context_id="b", stream=True))
        await self.watch(send(self.slot, "file", context_id="c", stream=True))
        parked = await self.ask(send(self.slot, "ask", context_id="d"))
        if parked is not None and parked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED":
            await self.ask(send(self.slot, "count", task_id=parked["id"], return_immediately=True))
            await until(lambda: len(self.slot.contexts.runs) == 0)
        parked = await self.ask(send(self.slot, "ask", context_id="e"))
        if parked is not None and parked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED":
            await self.cancel(parked["id"])
        await self.ask(send(self.slot, "direct", context_id="f"))

    async def ask(self, call):
        try:
            answer = decoded(await self.owners.send_message(call, 10))
        except A2AError as error:
            self.refusals.append(error)
            return None
        if "task" not in answer:
            return None
        self._acknowledged(answer["task"])
        return answer["task"]

    async def cancel(self, task_id):
        try:
            self._acknowledged(decoded(await self.owners.cancel_task(cancel(self.slot, task_id), 10)))
        except A2AError as error:
            self.refusals.append(error)

    async def watch(self, call):
        try:
            async with self.owners.stream(call, 10) as stream:
                while isinstance(frame := await stream.receive(), Event):
                    if frame.version:
                        assert self._stored_version(call.task_id) >= frame.version, "told before it was stored"
                        self.shown[call.task_id] = frame.version
                    event = decoded(frame.payload)
                    status = (event.get("statusUpdate") or event.get("task") or {}).get("status", {})
                    if status.get("state") in TERMINAL:
                        assert self.slot.record(call.task_id)["task"]["status"] == status
                        self.ended[call.task_id] = self.slot.record(call.task_id)["task"]
        except A2AError as error:
            self.refusals.append(error)

    def _stored_version(self, task_id):
        return self.slot.record(task_id)["version"]

    def _acknowledged(self, task):
        if task["status"]["state"] in TERMINAL:
            assert self.slot.record(task["id"])["task"] == task, "acknowledged before it was stored"
            self.ended[task["id"]] = task


def _plain(text):
    assert text.startswith("The task could not be stored: ")
    assert text.removeprefix("The task could not be stored: ") in {"Input/output error", "No space left on device"}


async def _scenario(slot, fault):
    slot.fs = fault
    async with slot.alive(), edge(slot.path, files=slot.files) as owners:
        client = Client(slot, owners)
        with trio.fail_after(15):
            await client.run()
        for error in client.refusals:
            assert error.kind is ErrorKind.INTERNAL, error
            _plain(error.message)
        fired = fault.fired
        fault.mended = True
        with trio.fail_after(15):
            await _goes_on(slot, owners, client)
    for task_id, task in client.ended.items():
        assert slot.record(task_id)["task"] == task, "an acknowledged end changed"
        if task["status"]["state"] == "TASK_STATE_FAILED":
            _plain(task["status"]["message"]["parts"][0]["text"])
    for task_id, version in client.shown.items():
        assert slot.record(task_id)["version"] >= version
    assert not _temporary(slot), "temporary files left"
    return fired, client


def _temporary(slot):
    return list(Path(slot.layout.root).rglob(".tmp-*"))


async def _goes_on(slot, owners, client):
    for context_id in ("a", "b", "new"):
        task = decoded(await owners.send_message(send(slot, "count", context_id=context_id), 5))["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
    for row in (await owners.list_tasks(listing(slot), 5)).rows:
        shown = decoded(row.task)
        assert shown["status"]["state"] in TERMINAL | {"TASK_STATE_INPUT_REQUIRED"}
        assert state(await owners.get_task(get(slot, shown["id"]), 5)) == shown["status"]["state"].removeprefix(
            "TASK_STATE_"
        )
    for task_id, task in client.ended.items():
        assert decoded(await owners.get_task(get(slot, task_id), 5)) == task


async def test_the_scenario_has_enough_calls_for_every_fault_to_fire(make_slot):
    slot = make_slot(SCRIPT)
    fault = Faulty(0, errno.EIO, lasting=False)
    fired, client = await _scenario(slot, fault)
    assert fired == 0
    assert fault._count >= MOST_CALLS
    assert client.refusals == []
    assert len(client.ended) == 4
    assert {task["status"]["state"] for task in client.ended.values()} == {
        "TASK_STATE_COMPLETED",
        "TASK_STATE_CANCELED",
    }


@pytest.mark.parametrize("first", range(1, MOST_CALLS + 1, 10))
async def test_one_failing_call_whichever_it_is_costs_at_most_its_own_task(make_slot, first):
    for nth in range(first, first + 10):
        slot = make_slot(SCRIPT, str(nth))
        fired, client = await _scenario(slot, Faulty(nth, (errno.EIO, errno.ENOSPC)[nth % 2], lasting=False))
        assert fired == 1, "the fault did not fire"
        failed = [task for task in client.ended.values() if task["status"]["state"] == "TASK_STATE_FAILED"]
        assert len(failed) + len(client.refusals) <= 2


@pytest.mark.parametrize("first", range(1, MOST_CALLS + 1, 15))
async def test_a_disk_that_stays_full_acknowledges_nothing_and_all_goes_on_when_there_is_room(make_slot, first):
    for nth in range(first, first + 15, 3):
        slot = make_slot(SCRIPT, str(nth))
        fired, client = await _scenario(slot, Faulty(nth, errno.ENOSPC, lasting=True))
        assert fired >= 1, "the fault did not fire"
        assert client.refusals, "everything was stored on a full disk"


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
async def test_a_run_whose_transcript_cannot_be_written_fails_with_the_plain_reason(make_slot, error):
    slot = make_slot(SCRIPT)
    slot.fs = fault = Faulty(1, error, lasting=False)
    async with slot.alive(), edge(slot.path, files=slot.files) as owners:
        fault._count, fault._nth = 0, 1
        task = decoded(await owners.send_message(send(slot, "count", context_id="c"), 5))["task"]
    assert fault.fired >= 1
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    text = task["status"]["message"]["parts"][0]["text"]
    assert (
        text
        == f"The task could not be stored: {'Input/output error' if error == errno.EIO else 'No space left on device'}"
    )


@pytest.mark.parametrize("calls", [1, 2, 3, 4, 5, 6])
async def test_a_continuation_that_could_not_start_leaves_the_task_waiting(make_slot, calls):
    """I3: who was refused may simply send it again."""
    slot = make_slot(SCRIPT)
    slot.fs = fault = Faulty(0, errno.EIO, lasting=False)
    async with slot.alive(), edge(slot.path, files=slot.files) as owners:
        parked = decoded(await owners.send_message(send(slot, "ask", context_id="c"), 5))["task"]
        fault._count, fault._nth = 0, calls
        call = send(slot, "count", task_id=parked["id"], return_immediately=True)
        with pytest.raises(A2AError) as caught:
            await owners.send_message(call, 5)
        assert fault.fired == 1, "the fault did not fire"
        assert caught.value.kind is ErrorKind.INTERNAL
        assert decoded(await owners.get_task(get(slot, parked["id"]), 5)) == parked
        task = decoded(await owners.send_message(send(slot, "count", task_id=parked["id"]), 5))["task"]
        assert texts_of(task) == {"response": "run 2"}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_new_task_that_could_not_start_leaves_none(make_slot, stream):
    slot = make_slot(SCRIPT)
    slot.fs = fault = Faulty(0, errno.EIO, lasting=False)
    async with slot.alive(), edge(slot.path, files=slot.files) as owners:
        await owners.send_message(send(slot, "count"), 5)
        before = (await owners.list_tasks(listing(slot), 5)).total
        fault._count, fault._nth = 0, 5  # the folder's sync, after the rename
        call = send(slot, "count", stream=stream, return_immediately=not stream)
        client = Client(slot, owners)
        await (client.watch(call) if stream else client.ask(call))
        assert fault.fired == 1, "the fault did not fire"
        assert [error.kind for error in client.refusals] == [ErrorKind.INTERNAL]
        assert (await owners.list_tasks(listing(slot), 5)).total == before


async def test_a_run_whose_end_finds_no_room_at_all_is_refused_and_settled_by_the_next_reader(make_slot):
    slot = make_slot(SCRIPT)
    slot.fs = fault = Faulty(10**9, errno.ENOSPC, lasting=True)
    async with slot.alive(), edge(slot.path, files=slot.files) as owners:
        call = send(slot, "note", context_id="c", return_immediately=True)
        await owners.send_message(call, 5)
        await until(lambda: len(slot.contexts.runs) == 0)
        fault._nth = fault._count + 1
        waiting = send(slot, "count", context_id="c")
        with pytest.raises(A2AError, match="No space left on device"):
            await owners.send_message(waiting, 5)
        assert fault.fired
        fault.mended = True
        assert slot.files.read(waiting.task_id) is None or (
            state(await owners.get_task(get(slot, waiting.task_id), 5)) == "FAILED"
        )


async def test_a_slot_starts_on_a_full_disk_and_settles_later_what_it_could_not_settle_then(make_slot):
    slot = make_slot({"rules": [{"textPrefix": "wait", "steps": [{"delay": 60}]}]})
    call = send(slot, "wait", return_immediately=True)
    async with slot.alive(), edge(slot.path) as owners:
        await owners.send_message(call, 5)
        killed = slot.snapshot()
    for path, content in killed.items():
        path.write_bytes(content)
    slot.fs = fault = Faulty(1, errno.ENOSPC, lasting=True)
    async with slot.alive(), edge(slot.path, files=slot.files) as owners:
        assert fault.fired >= 2
        with pytest.raises(A2AError) as caught:
            await owners.get_task(get(slot, call.task_id), 5)
        assert caught.value.kind is ErrorKind.INTERNAL
        fault.mended = True
        assert state(await owners.get_task(get(slot, call.task_id), 5)) == "FAILED"
        assert state(await owners.send_message(send(slot, "echo"), 5)) == "COMPLETED"
