"""What stands between one fault and the rest of the service: its parts, its lock, its files, its memory."""

from __future__ import annotations

import base64
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.service.a2a import answer
from tests.service.harness import eventually, walk


def _pid(service, name):
    return next(node["pid"] for node in walk(service.tree()) if node["id"] == name)


def test_the_workspace_lock_is_held_by_every_process(make_service):
    service = make_service(edges=1, workers=1).start()
    lock = str(service.workspace / ".volcanic" / "lock")
    for pid in service.census():
        held = [str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()]
        assert lock in held, f"{service.census()[pid]} does not hold {lock}"


def test_what_cannot_be_removed_does_not_keep_the_service_from_starting(make_service):
    service = make_service(edges=1, workers=1)
    leftover = service.a2a / ".tmp-old"
    leftover.mkdir(parents=True)
    os.utime(leftover, (0, 0))
    service.start()
    slot = _pid(service, "agents-0")
    assert answer(service.rpc().send("hi")) == "hi"
    time.sleep(0.3)
    assert _pid(service, "agents-0") == slot, "the slot was replaced"
    assert leftover.is_dir()


def test_a_few_thousand_callers_are_read_in_a_moment(make_service):
    service = make_service(edges=1, workers=1)
    entries = json.loads((service.a2a / "callers.json").read_text())
    entries += [{"name": f"caller-{number}", "key": f"k_{number:064d}"} for number in range(3000)]
    (service.a2a / "callers.json").write_text(json.dumps(entries))
    service.start()
    started = time.monotonic()
    assert answer(service.rpc().send("hi")) == "hi"
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("path", [".volcanic/lock", ".volcanic/a2a/tasks"])
def test_a_file_in_the_way_is_one_line(make_service, path):
    service = make_service(edges=1, workers=1)
    place = service.workspace / path
    if path.endswith("lock"):
        place.mkdir(parents=True)
    else:
        place.write_text("a file where a folder should be")
    status, _, errors = service.run()
    assert status == 2
    lines = errors.strip().splitlines()
    assert len(lines) == 1, errors
    assert path.rpartition("/")[0] in lines[0]


def test_large_tasks_cost_their_caller_and_nobody_else(make_service):
    service = make_service(edges=1, workers=1).start()
    alice, bob = service.rpc("alice"), service.rpc("bob")
    part = {"raw": base64.b64encode(bytes(15_000_000)).decode(), "mediaType": "application/octet-stream"}
    message = {"role": "ROLE_USER", "messageId": "m", "parts": [{"text": "ask"}, part]}
    task = alice.call("SendMessage", {"message": message})["task"]
    before = service.census()
    with ThreadPoolExecutor(30) as threads:
        reads = [threads.submit(alice.exchange, "GetTask", {"id": task["id"]}) for _ in range(30)]
        started = time.monotonic()
        assert answer(bob.send("hi")) == "hi"
        assert time.monotonic() - started < 10
        answers = [read.result(60) for read in reads]
    assert any(reply.status == 200 and b'"result"' in reply.body for reply in answers)
    assert service.census() == before
    page = alice.call("ListTasks", {"pageSize": 5})
    assert [row["id"] for row in page["tasks"]] == [task["id"]]


def test_a_page_of_heavy_tasks_is_shorter_and_goes_on(make_service):
    service = make_service(edges=1, workers=2).start()
    alice = service.rpc()
    part = {"raw": base64.b64encode(bytes(3_000_000)).decode(), "mediaType": "application/octet-stream"}
    ids = []
    for number in range(8):
        message = {"role": "ROLE_USER", "messageId": f"m{number}", "parts": [{"text": "hi"}, part]}
        ids.append(alice.call("SendMessage", {"message": message})["task"]["id"])
    seen, token, pages = [], "", 0
    while True:
        page = alice.call("ListTasks", {"pageSize": 8, **({"pageToken": token} if token else {})})
        seen += [row["id"] for row in page["tasks"]]
        pages += 1
        token = page["nextPageToken"]
        if not token:
            break
        assert pages < 20
    assert sorted(seen) == sorted(ids)
    assert seen == list(reversed(ids)), "newest first over all pages"
    assert pages > 1


def test_a_workspace_that_was_moved_keeps_one_run_a_context(make_service):
    service = make_service(edges=1, workers=2).start()
    alice = service.rpc()
    waiting = [alice.send("ask", context=f"moved-{number}") for number in range(8)]
    service.stop()
    moved = service.folder / "moved"
    service.workspace.rename(moved)
    service.arguments[service.arguments.index(str(service.workspace))] = str(moved)
    service.workspaces[0] = moved
    service.start()
    alice = service.rpc()
    for number, task in enumerate(waiting):
        running = alice.send("long: new", context=f"moved-{number}", immediately=True)
        refused = alice.exchange(
            "SendMessage",
            {"message": {"role": "ROLE_USER", "messageId": "m", "taskId": task["id"], "parts": [{"text": "monday"}]}},
        )
        assert b"context busy" in refused.body
        alice.call("CancelTask", {"id": running["id"]})
    eventually(lambda: alice.call("ListTasks", {"status": "TASK_STATE_WORKING"})["totalSize"] == 0, 5, "all canceled")
