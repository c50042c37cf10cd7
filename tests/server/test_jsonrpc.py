import json

import pytest

from actors.messages import ListRow
from tests.server.conftest import KEY, post, send_body
from tests.server.fakes import TASK_ID, task
from volcanic.protocol import ids
from volcanic.protocol.errors import A2AError, ErrorKind
from volcanic.server.settings import ServerSettings

MESSAGE = {"role": "ROLE_USER", "messageId": "m1", "parts": [{"text": "hi"}]}


def reason(answer) -> str:
    return answer.json["error"]["data"][0]["reason"]


async def test_send_message_asks_the_owner_and_answers_its_task(server, workspace):
    answer = await server.rpc("SendMessage", {"message": MESSAGE}, call_id="a-1")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    ((send, seconds),) = server.owners.calls
    assert answer.json == {
        "jsonrpc": "2.0",
        "id": "a-1",
        "result": {"task": json.loads(bytes(task(task_id=send.task_id)))},
    }
    assert (send.workspace, send.caller, send.new) == (str(workspace), "travel-bot", True)
    assert ids.is_context_id(send.context_id)
    assert ids.shard_of_task_id(send.task_id) == ids.shard_of("travel-bot", send.context_id)
    assert len(send.op) == 32
    assert seconds == ServerSettings().send_seconds
    assert (send.return_immediately, send.stream, send.history_length, send.hops) == (False, False, None, 0)


async def test_each_send_is_an_operation_of_its_own(server):
    for _ in range(2):
        await server.rpc("SendMessage", {"message": MESSAGE})
    first, second = (call for call, _ in server.owners.calls)
    assert first.op != second.op
    assert first.task_id != second.task_id
    assert first.context_id != second.context_id


async def test_what_the_caller_configures_reaches_the_owner(server):
    configuration = {"returnImmediately": True, "historyLength": 0, "acceptedOutputModes": ["text/plain"]}
    message = {**MESSAGE, "contextId": "mine", "metadata": {"volcanic.hops": 2}}
    await server.rpc("SendMessage", {"message": message, "configuration": configuration})
    ((send, seconds),) = server.owners.calls
    assert (send.return_immediately, send.history_length, send.accepted_output_modes) == (True, 0, ["text/plain"])
    assert (send.context_id, send.hops) == ("mine", 2)
    assert seconds == ServerSettings().call_seconds


async def test_a_continuation_keeps_the_task_and_leaves_the_context_to_it(server):
    await server.rpc("SendMessage", {"message": {**MESSAGE, "taskId": TASK_ID}})
    ((send, _),) = server.owners.calls
    assert (send.new, send.task_id, send.context_id) == (False, TASK_ID, "")


@pytest.mark.parametrize("call_id", [7, -1, "x", 1.5, None])
async def test_an_id_comes_back_as_it_was(server, call_id):
    answer = await server.rpc("GetTask", {"id": TASK_ID}, call_id=call_id)
    assert answer.json["id"] == call_id


async def test_get_task(server):
    answer = await server.rpc("GetTask", {"id": TASK_ID, "historyLength": 3})
    assert answer.json["result"] == json.loads(bytes(task()))
    assert server.owners.calls[0][0].history_length == 3


async def test_foreign_and_absent_tasks_are_answered_byte_equal(server):
    absent = await server.rpc("GetTask", {"id": "3f000000-0000-4000-8000-00000000ffff"})
    odd = await server.rpc("GetTask", {"id": "../../etc/passwd"})
    assert absent.body == odd.body
    assert absent.json["error"]["code"] == -32001


async def test_cancel_task(server):
    answer = await server.rpc("CancelTask", {"id": TASK_ID})
    assert answer.json["result"]["status"]["state"] == "TASK_STATE_CANCELED"


async def test_list_tasks_pages_by_cursor(server):
    rows = [ListRow(timestamp="2026-12-01T09:30:00.000Z", task_id=TASK_ID[:-1] + str(n), task=task()) for n in range(3)]
    server.owners.page.total, server.owners.page.rows = 7, rows
    first = (await server.rpc("ListTasks", {"pageSize": 2})).json["result"]
    assert (len(first["tasks"]), first["pageSize"], first["totalSize"]) == (2, 2, 7)
    call = server.owners.calls[0][0]
    assert (call.limit, call.before) == (3, None)
    server.owners.page.rows = rows[2:]
    second = (await server.rpc("ListTasks", {"pageSize": 2, "pageToken": first["nextPageToken"]})).json["result"]
    assert second["nextPageToken"] == ""
    assert server.owners.calls[1][0].before == ("2026-12-01T09:30:00.000Z", rows[1].task_id)


async def test_list_tasks_passes_its_filters_and_always_answers_four_members(server):
    query = {
        "contextId": "none",
        "status": "TASK_STATE_WORKING",
        "historyLength": 0,
        "includeArtifacts": True,
        "statusTimestampAfter": "2026-12-01T10:00:00+01:00",
    }
    answer = await server.rpc("ListTasks", query)
    assert answer.json["result"] == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}
    call = server.owners.calls[0][0]
    assert (call.context_id, call.state, call.history_length, call.artifacts) == ("none", "TASK_STATE_WORKING", 0, True)
    assert call.since == "2026-12-01T09:00:00.000Z"


@pytest.mark.parametrize("token", ["x", "%%%", "MjAyNg", "é", "A" * 500])
async def test_a_page_token_of_another_make_is_refused(server, token):
    answer = await server.rpc("ListTasks", {"pageToken": token})
    assert answer.json["error"]["code"] == -32602
    assert answer.json["error"]["data"][1]["fieldViolations"][0]["field"] == "pageToken"
    assert server.owners.calls == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"jsonrpc":"2.0","id":7,', -32700),
        (b"", -32700),
        (b"\xff\xfe", -32700),
        (b"[" * 100_000, -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"a":' + b"[" * 100_000, -32700),
        (b"[1,2]", -32600),
        (b'"hi"', -32600),
        (b"null", -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"GetTask"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":[]}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"NoSuch","params":{}}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"message/send","params":{}}', -32601),
    ],
)
@pytest.mark.parametrize("content_type", ["application/json", None, "application/x-www-form-urlencoded"])
async def test_a_body_at_fault_is_told_in_an_envelope(server, body, code, content_type):
    headers = {"Content-Type": content_type} if content_type else {}
    answer = await server.request("POST", "/a2a", body, headers)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json["error"]["code"] == code
    assert answer.json["jsonrpc"] == "2.0"
    assert "id" in answer.json
    if code == -32700:
        assert answer.json["id"] is None
    assert (await server.request("GET", "/healthz", key=None)).status == 200


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"messageId": None}, "message.messageId"),
        ({"role": None}, "message.role"),
        ({"role": "ROLE_UNSPECIFIED"}, "message.role"),
        ({"parts": None}, "message.parts"),
        ({"parts": []}, "message.parts"),
        ({"parts": [{"filename": "n.txt"}]}, "message.parts[0]"),
        ({"parts": [{"text": "a", "url": "https://e.example/x"}]}, "message.parts[0]"),
        ({"parts": [{"raw": "@@@"}]}, "message.parts[0].raw"),
        ({"contextId": "a b"}, "message.contextId"),
    ],
)
async def test_a_message_at_fault_names_its_field_and_starts_nothing(server, change, field):
    message = {name: value for name, value in {**MESSAGE, **change}.items() if value is not None}
    answer = await server.rpc("SendMessage", {"message": message})
    assert answer.json["error"]["code"] == -32602
    assert answer.json["error"]["data"][1]["fieldViolations"][0]["field"] == field
    assert server.owners.calls == []


async def test_unknown_members_are_ignored(server):
    message = {**MESSAGE, "parts": [{"text": "hi", "futureThing": 1}], "alsoNew": {}}
    assert "result" in (await server.rpc("SendMessage", {"message": message, "later": 1})).json


@pytest.mark.parametrize(
    ("media_type", "accepted"),
    [
        ("text/plain", True),
        ("Text/Markdown; charset=utf-8", True),
        ("image/png", True),
        ("application/pdf", True),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", True),
        ("application/x-msdownload", False),
        ("application/x-unsupported-tck-type", False),
        ("text", False),
        ("/", False),
        ("", True),
    ],
)
async def test_a_part_of_a_media_type_not_taken_is_refused_before_the_owner_is_asked(server, media_type, accepted):
    parts = [{"text": "hi"}, {"url": "https://e.example/x", "mediaType": media_type}]
    answer = await server.rpc("SendMessage", {"message": {**MESSAGE, "parts": parts}})
    if accepted:
        assert "result" in answer.json
    else:
        assert answer.json["error"]["code"] == -32005
        assert answer.json["error"]["data"][1]["fieldViolations"][0]["field"] == "message.parts[1].mediaType"
        assert server.owners.calls == []


async def test_input_modes_are_a_setting(start):
    server = await start(ServerSettings(input_modes=("*/*",)))
    parts = [{"raw": "YQ==", "mediaType": "application/x-msdownload"}]
    assert "result" in (await server.rpc("SendMessage", {"message": {**MESSAGE, "parts": parts}})).json


@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", "multipart/form-data; boundary=x"])
async def test_another_content_type_is_refused_before_the_body_is_parsed(server, content_type):
    answer = await server.request("POST", "/a2a", b"not json", {"Content-Type": content_type})
    assert answer.json["error"]["code"] == -32005
    assert reason(answer) == "CONTENT_TYPE_NOT_SUPPORTED"


@pytest.mark.parametrize(
    ("path", "header", "served"),
    [
        ("/a2a", None, True),
        ("/a2a", "", True),
        ("/a2a", "1.0", True),
        ("/a2a", "1.0.7", True),
        ("/a2a", "99.0", False),
        ("/a2a", "9.9", False),
        ("/a2a?A2A-Version=1.0", None, True),
        ("/a2a?a2a-version=2.0", None, False),
        ("/a2a?x=y", None, True),
    ],
)
async def test_only_a_version_that_is_served_is_served(server, path, header, served):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": TASK_ID}})
    headers = {"Content-Type": "application/json"} | ({} if header is None else {"A2A-Version": header})
    answer = await server.request("POST", path, body, headers)
    assert ("result" in answer.json) is served
    if not served:
        assert answer.json["error"]["code"] == -32009


async def test_with_and_without_trailing_slash_and_no_other_method(server):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": TASK_ID}})
    assert "result" in (await server.request("POST", "/a2a/", body, {"Content-Type": "application/json"})).json
    answer = await server.request("GET", "/a2a")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert answer.json["error"]["code"] == -32600


@pytest.mark.parametrize(
    "method",
    [
        ("CreateTaskPushNotificationConfig", {"taskId": TASK_ID, "url": "https://e.example/hook"}),
        ("GetTaskPushNotificationConfig", {"taskId": TASK_ID, "id": "x"}),
        ("ListTaskPushNotificationConfigs", {"taskId": TASK_ID}),
        ("DeleteTaskPushNotificationConfig", {"taskId": TASK_ID, "id": "x"}),
        (
            "SendMessage",
            {"message": MESSAGE, "configuration": {"taskPushNotificationConfig": {"url": "https://e.example/"}}},
        ),
    ],
)
async def test_push_configs_are_refused_while_there_are_none(server, method):
    answer = await server.rpc(*method)
    assert answer.json["error"]["code"] == -32003
    assert server.owners.calls == []


@pytest.mark.parametrize(
    ("kind", "code", "status"),
    [
        (ErrorKind.UNSUPPORTED_OPERATION, -32004, 200),
        (ErrorKind.UNAVAILABLE, -32050, 200),
        (ErrorKind.LIMITED, -32051, 429),
        (ErrorKind.INVALID_PARAMS, -32602, 200),
    ],
)
async def test_an_owners_refusal_is_told(server, kind, code, status):
    server.owners.refusal = A2AError(kind, "so it is", retry_after=1.2)
    answer = await server.rpc("SendMessage", {"message": MESSAGE}, call_id=9)
    assert (answer.status, answer.json["id"], answer.json["error"]["code"]) == (status, 9, code)
    assert answer.json["error"]["message"] == "so it is"
    assert answer.headers["retry-after"] == "1"


async def test_an_unexpected_failure_is_told_without_detail_and_logged(server, captured):
    server.owners.failure = RuntimeError("secret detail")
    answer = await server.rpc("SendMessage", {"message": MESSAGE})
    assert answer.json["error"]["code"] == -32603
    assert b"secret" not in answer.body
    assert [line["event"] for line in captured] == ["request failed"]


async def test_a_declared_length_over_the_limit_is_refused_unread(start):
    server = await start(ServerSettings(body_bytes=1000))
    answer = await server.talk(post(b"", length=1001))
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b'"code":-32600' in answer


async def test_a_chunked_body_is_refused_where_it_passes_the_limit(start):
    server = await start(ServerSettings(body_bytes=1000))
    head = post(b"", length=0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    answer = await server.talk(head + b"1f4\r\n" + b"x" * 500 + b"\r\n1f5\r\n" + b"x" * 501)
    assert answer.startswith(b"HTTP/1.1 413 ")


async def test_the_body_limit_itself_is_allowed(start):
    body = send_body("y" * 500)
    server = await start(ServerSettings(body_bytes=len(body)))
    assert (await server.request("POST", "/a2a", body)).status == 200


async def test_a_body_in_pieces_is_one_body(server):
    body = send_body("z" * 200_000)
    stream = await server.raw()
    async with stream:
        head, _, _ = post(body).partition(body)
        await stream.send_all(head)
        for start in range(0, len(body), 9_999):
            await stream.send_all(body[start : start + 9_999])
        assert (await stream.receive_some(100)).startswith(b"HTTP/1.1 200 ")
    assert server.owners.calls[0][0].message.parts[0].text == "z" * 200_000


async def test_a_slow_body_is_cut_off(start):
    server = await start(ServerSettings(body_seconds=0.2))
    answer = await server.talk(post(b'{"json', length=100))
    assert answer.startswith(b"HTTP/1.1 408 ")


async def test_the_extended_card_is_a_method(server):
    answer = await server.rpc("GetExtendedAgentCard")
    assert answer.json["result"]["name"] == "Volcanic assistant"
    assert KEY not in answer.body.decode()
