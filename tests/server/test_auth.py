import json

import pytest
import trio

from tests.server.conftest import KEY, OTHER_KEY, post
from tests.server.fakes import TASK_ID

UNAUTHENTICATED = {"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "A valid API key is required"}}
RPC = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": TASK_ID}})
ROUTES = [
    ("POST", "/a2a"),
    ("GET", "/a2a"),
    ("POST", "/a2a/"),
    ("POST", "/a2a/v1/message:send"),
    ("POST", "/a2a/v1/message:stream"),
    ("GET", "/a2a/v1/tasks"),
    ("GET", f"/a2a/v1/tasks/{TASK_ID}"),
    ("GET", "/a2a/v1/tasks/absent"),
    ("POST", f"/a2a/v1/tasks/{TASK_ID}:cancel"),
    ("POST", f"/a2a/v1/tasks/{TASK_ID}:subscribe"),
    ("GET", f"/a2a/v1/tasks/{TASK_ID}/pushNotificationConfigs"),
    ("GET", "/a2a/v1/extendedAgentCard"),
    ("GET", "/a2a/v1/card"),
    ("GET", "/a2a/v1/nothing"),
    ("GET", "/a2a/v1"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("key", [None, "", "wrong", KEY[:-1], KEY + "x", "\x00", "é"])
async def test_without_the_right_key_everything_is_the_same_401(server, method, path, key):
    headers = {} if key is None else {"X-API-Key": key.encode().decode("latin-1")}
    if key == "\x00":
        headers = {"Authorization": "Basic " + KEY}
    answer = await server.request(method, path, headers=headers, key=None)
    assert (answer.status, answer.json) == (401, UNAUTHENTICATED)
    assert answer.headers["content-type"] == "application/json"
    assert "Bearer" in answer.headers["www-authenticate"]
    assert server.owners.calls == []


@pytest.mark.parametrize(
    "headers",
    [
        {"X-API-Key": KEY},
        {"x-api-key": KEY},
        {"Authorization": f"Bearer {KEY}"},
        {"Authorization": f"bearer   {KEY}"},
        {"Authorization": "Basic xyz", "X-API-Key": KEY},
        {"Authorization": f"Bearer {KEY}", "X-API-Key": ""},
    ],
)
async def test_either_header_carries_the_key(server, headers):
    answer = await server.request("POST", "/a2a", RPC, {"Content-Type": "application/json", **headers}, key=None)
    assert (answer.status, answer.json["result"]["id"]) == (200, TASK_ID)
    assert server.owners.calls[0][0].caller == "travel-bot"


async def test_the_key_says_who_calls(server):
    await server.rpc("GetTask", {"id": TASK_ID}, key=OTHER_KEY)
    assert server.owners.calls[0][0].caller == "other"


async def test_an_edit_of_callers_json_counts_for_the_next_request(server, workspace):
    assert (await server.rpc("GetTask", {"id": TASK_ID})).status == 200
    file = workspace / ".volcanic" / "a2a" / "callers.json"
    file.write_text(json.dumps([{"name": "new", "key": "k_new"}]))
    assert (await server.rpc("GetTask", {"id": TASK_ID})).status == 401
    assert (await server.rpc("GetTask", {"id": TASK_ID}, key="k_new")).status == 200


async def test_a_key_of_two_callers_is_nobodys_and_warned_of_with_their_names(server, workspace, captured):
    file = workspace / ".volcanic" / "a2a" / "callers.json"
    file.write_text(json.dumps([{"name": "one", "key": KEY}, {"name": "two", "key": KEY}]))
    assert (await server.rpc("GetTask", {"id": TASK_ID})).status == 401
    (warning,) = [line["event"] for line in captured if "matches" in line["event"]]
    assert warning.startswith("an API key matches 2 callers (owners: ")
    assert "one" in warning
    assert "two" in warning
    assert KEY not in str(captured)


async def test_guessing_does_not_fill_the_log(server, captured):
    for number in range(20):
        await server.rpc("GetTask", {"id": TASK_ID}, key=f"guess-{number}-{KEY[3:10]}")
    assert len([line for line in captured if "matches 0 callers" in line["event"]]) == 1
    await trio.sleep(1.1)
    await server.rpc("GetTask", {"id": TASK_ID}, key="guess")
    lines = [line for line in captured if "matches 0 callers" in line["event"]]
    assert [line["kept_back"] for line in lines] == [0, 19]
    assert "guess" not in str(captured)


async def test_the_key_is_checked_before_the_body_arrives(server):
    with trio.fail_after(5):
        stream = await server.raw()
        async with stream:
            await stream.send_all(post(b"", key="wrong", length=1_000_000))
            received = b""
            while piece := await stream.receive_some(4096):
                received += piece
    assert received.startswith(b"HTTP/1.1 401 ")


async def test_a_body_sent_without_waiting_does_not_lose_the_401(server):
    answer = await server.talk(post(b"x" * 500_000, key="wrong"))
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"<reset>" not in answer


@pytest.mark.parametrize("path", ["/a2a/push/", "/a2a/push/x", "/a2a/push/x/y", "/a2a/push/x?token=1"])
@pytest.mark.parametrize("key", [None, "wrong", KEY])
async def test_the_push_receiver_is_a_404_that_tells_nothing(server, path, key):
    answer = await server.request("POST", path, b"{}", key=key)
    again = await server.request("POST", "/a2a/push/absent", b"{}", key=None)
    assert (answer.status, answer.body) == (again.status, again.body) == (404, again.body)
    assert [name for name in answer.headers if name != "date"] == [name for name in again.headers if name != "date"]
