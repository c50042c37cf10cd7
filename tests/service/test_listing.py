"""ListTasks: order, filters, pages, totals (LT-03, LT-05, LT-06, spec §3.1.4). A caller of its own keeps the list small."""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.service.a2a import answer, state_of
from tests.service.conftest import BINDINGS, caller_of


@pytest.fixture(params=BINDINGS)
def lister(request, service):
    name = f"lister-{uuid.uuid4().hex[:8]}"
    service.admit(name)
    return caller_of(service, request.param, name)


def _pages(caller, **params):
    token, pages = "", []
    while True:
        page = caller.call("ListTasks", {**params, **({"pageToken": token} if token else {})})
        assert set(page) == {"tasks", "nextPageToken", "pageSize", "totalSize"}
        pages.append(page)
        token = page["nextPageToken"]
        assert len(pages) < 100, "the walk does not end"
        if not token:
            return pages


def _ids(pages):
    return [task["id"] for page in pages for task in page["tasks"]]


def test_an_empty_list_has_all_four_members(lister):
    assert lister.call("ListTasks", {}) == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}


def test_pages_are_in_order_complete_and_say_how_many_there_are(lister):
    sent = [lister.send(f"number {number}")["id"] for number in range(23)]
    pages = _pages(lister, pageSize=5)
    assert [len(page["tasks"]) for page in pages] == [5, 5, 5, 5, 3]
    assert {page["totalSize"] for page in pages} == {23}
    assert {page["pageSize"] for page in pages} == {5}
    assert _ids(pages) == sent[::-1]
    stamps = [task["status"]["timestamp"] for page in pages for task in page["tasks"]]
    assert stamps == sorted(stamps, reverse=True)


def test_a_page_that_ends_the_list_exactly_has_no_successor(lister):
    for _ in range(4):
        lister.send("hi")
    assert [len(page["tasks"]) for page in _pages(lister, pageSize=2)] == [2, 2]
    assert [len(page["tasks"]) for page in _pages(lister, pageSize=4)] == [4]


def test_the_default_page_is_fifty(lister):
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: lister.send("hi"), range(55)))
    page = lister.call("ListTasks", {})
    assert (len(page["tasks"]), page["pageSize"], page["totalSize"]) == (50, 50, 55)
    assert len(set(_ids(_pages(lister)))) == 55


def test_filters_narrow_the_list_and_its_total(lister):
    context = str(uuid.uuid4())
    parked = lister.send("ask", context=context)
    done = lister.send("hi", context=context)
    lister.send("hi")
    failed = lister.send("give-up")

    def listed(**params):
        page = lister.call("ListTasks", params)
        assert page["totalSize"] == len(page["tasks"])
        return {task["id"] for task in page["tasks"]}

    assert listed(contextId=context) == {parked["id"], done["id"]}
    assert listed(status="TASK_STATE_INPUT_REQUIRED") == {parked["id"]}
    assert listed(status="TASK_STATE_FAILED") == {failed["id"]}
    assert listed(status="TASK_STATE_COMPLETED", contextId=context) == {done["id"]}
    assert listed(status="TASK_STATE_WORKING") == set()
    assert listed(contextId="nothing-here") == set()


def test_the_timestamp_filter_is_at_or_after(lister):
    first = lister.send("hi")
    time.sleep(0.01)
    second = lister.send("hi")
    stamp = second["status"]["timestamp"]

    def listed(since):
        return [task["id"] for task in lister.call("ListTasks", {"statusTimestampAfter": since})["tasks"]]

    assert listed(stamp) == [second["id"]]
    assert listed(first["status"]["timestamp"]) == [second["id"], first["id"]]
    assert listed("2100-01-01T00:00:00Z") == []
    assert listed("2000-01-01T00:00:00Z") == [second["id"], first["id"]]
    assert listed(stamp.replace("Z", "000Z")) == [second["id"]]


def test_artifacts_are_left_out_entirely_unless_asked_for(lister):
    lister.send("files")
    plain = lister.call("ListTasks", {})["tasks"][0]
    assert "artifacts" not in plain
    assert "artifacts" not in lister.call("ListTasks", {"includeArtifacts": False})["tasks"][0]
    full = lister.call("ListTasks", {"includeArtifacts": True})["tasks"][0]
    assert {each["artifactId"] for each in full["artifacts"]} >= {"facts", "file", "link"}


def test_history_is_cut_for_the_list_alone(lister):
    task = lister.send("keep-asking")
    lister.send("monday", task=task["id"])
    task = lister.send("nine", task=task["id"])
    assert "history" not in lister.call("ListTasks", {"historyLength": 0})["tasks"][0]
    assert lister.call("ListTasks", {"historyLength": 1})["tasks"][0]["history"] == task["history"][-1:]
    assert lister.get(task["id"]) == task
    assert answer(lister.get(task["id"])) == "booked nine"


@pytest.mark.parametrize(
    "params",
    [
        {"pageSize": 0},
        {"pageSize": -1},
        {"pageSize": 101},
        {"pageSize": 10**9},
        {"pageSize": 10**30},
        {"pageSize": "x"},
        {"pageSize": 2.5},
        {"historyLength": -5},
        {"status": "TASK_STATE_RUNNING"},
        {"status": "completed"},
        {"pageToken": "nonsense"},
        {"pageToken": "AAAA"},
        {"statusTimestampAfter": "yesterday"},
        {"statusTimestampAfter": "2026-13-40T00:00:00Z"},
    ],
)
def test_a_bad_parameter_is_refused_by_name(alice, params):
    refused = alice.refused("ListTasks", params)
    assert refused.kind == "INVALID_PARAMS"
    assert refused.fields == list(params)


def test_tasks_that_do_not_change_are_seen_once_while_others_come(lister):
    with ThreadPoolExecutor(4) as threads:
        old = {task["id"] for task in threads.map(lambda _: lister.send("hi"), range(30))}
    seen, token, pages = [], "", 0
    while pages == 0 or token:
        page = lister.call("ListTasks", {"pageSize": 5, **({"pageToken": token} if token else {})})
        seen += [task["id"] for task in page["tasks"]]
        token, pages = page["nextPageToken"], pages + 1
        lister.send("newcomer")
        assert pages < 20, "the walk does not end"
    assert sorted(identity for identity in seen if identity in old) == sorted(old)


def test_a_running_task_is_listed_first_and_as_working(lister):
    lister.send("hi")
    running = lister.send("long: listed", immediately=True)
    page = lister.call("ListTasks", {"status": "TASK_STATE_WORKING"})
    assert [task["id"] for task in page["tasks"]] == [running["id"]]
    assert state_of(lister.call("ListTasks", {})["tasks"][0]) == "WORKING"
    lister.call("CancelTask", {"id": running["id"]})


def test_files_that_are_put_there_or_broken_by_hand_are_seen_or_passed_over(service, lister):
    task = lister.send("hi")
    gone = lister.send("to be deleted")
    (service.a2a / "tasks" / f"{gone['id']}.json").unlink()
    broken = lister.send("to be broken")
    (service.a2a / "tasks" / f"{broken['id']}.json").write_bytes(b'{"caller": "')
    logged = len(service.log.read_text())
    assert lister.refused("GetTask", {"id": broken["id"]}).kind == "TASK_NOT_FOUND"
    assert lister.refused("GetTask", {"id": gone["id"]}).kind == "TASK_NOT_FOUND"
    page = lister.call("ListTasks", {})
    assert ([each["id"] for each in page["tasks"]], page["totalSize"]) == ([task["id"]], 1)
    assert broken["id"] not in service.log.read_text()[logged:]
    (service.a2a / "tasks" / f"{broken['id']}.json").unlink()
