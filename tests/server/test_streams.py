import json

import pytest
import trio

from actors.messages import End
from tests.server.conftest import post, receive_until, send_body, until_closed
from tests.server.fakes import TASK_ID, FakeStream, event, task
from volcanic.config import CancelOnDisconnect
from volcanic.protocol import sse
from volcanic.protocol.errors import A2AError, ErrorKind
from volcanic.server.settings import ListenerSettings, ServerSettings

MESSAGE = {"role": "ROLE_USER", "messageId": "m1", "parts": [{"text": "hi"}]}
SNAPSHOT = b'{"task":' + bytes(task("TASK_STATE_WORKING")) + b"}"
STREAM = json.dumps(
    {"jsonrpc": "2.0", "id": "s", "method": "SendStreamingMessage", "params": {"message": MESSAGE}}
).encode()


async def test_events_come_in_envelopes_with_the_tasks_version_as_id(server):
    server.owners.streams.append(
        FakeStream(event(SNAPSHOT, 1), event(b'{"statusUpdate":{}}', 2), event(b'{"x":1}'), End(id=1))
    )
    answer = await server.rpc("SendStreamingMessage", {"message": MESSAGE}, call_id="s")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream")
    assert answer.headers["cache-control"] == "no-store"
    events = sse.Decoder().feed(answer.body)
    assert [e.id for e in events] == ["1", "2", "2"]
    assert [json.loads(e.data) for e in events] == [
        {"jsonrpc": "2.0", "id": "s", "result": json.loads(SNAPSHOT)},
        {"jsonrpc": "2.0", "id": "s", "result": {"statusUpdate": {}}},
        {"jsonrpc": "2.0", "id": "s", "result": {"x": 1}},
    ]
    ((send, _),) = server.owners.calls
    assert (send.stream, send.return_immediately) == (True, False)
    assert server.owners.left == [send]


async def test_a_refusal_before_the_first_event_is_plain_json(server):
    server.owners.refusal = A2AError(ErrorKind.UNSUPPORTED_OPERATION)
    answer = await server.rpc("SubscribeToTask", {"id": TASK_ID})
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json["error"]["code"] == -32004
    bad = await server.rpc("SendStreamingMessage", {"message": {}})
    assert bad.json["error"]["code"] == -32602


async def test_events_are_sent_as_they_come(server):
    live = FakeStream(event(SNAPSHOT, 1))
    server.owners.streams.append(live)
    async with await server.raw() as stream:
        await stream.send_all(post(STREAM))
        await receive_until(stream, SNAPSHOT)
        await live.more.send(event(b'{"n":2}', 2))
        await receive_until(stream, b'{"n":2}')
        await live.more.send(End(id=1))
        await receive_until(stream, b"0\r\n\r\n")
        await stream.send_all(post(send_body()))  # the connection goes on
        await receive_until(stream, b'"result":{"task"')


async def test_a_quiet_stream_gets_comments(start):
    server = await start(ServerSettings(comment_seconds=0.05))
    live = FakeStream(event(SNAPSHOT, 1))
    server.owners.streams.append(live)
    async with await server.raw() as stream:
        await stream.send_all(post(STREAM))
        received = await receive_until(stream, b":\n\n")
        received += await receive_until(stream, b":\n\n")
        await live.more.send(event(b'{"n":2}', 2))
        received += await receive_until(stream, b'{"n":2}')
    assert received.count(b"data: ") == 2


@pytest.mark.parametrize("reason", ["slow", "lost"])
async def test_a_stream_that_is_cut_off_does_not_look_finished(server, reason):
    server.owners.streams.append(FakeStream(event(SNAPSHOT, 1), End(id=1, reason=reason)))
    answer = await server.talk(post(STREAM))
    assert SNAPSHOT in answer
    assert not answer.endswith(b"0\r\n\r\n")


async def test_a_stream_that_fails_is_cut_off_and_logged_once(server, captured):
    class Failing(FakeStream):
        async def receive(self):
            if self._inbox.statistics().current_buffer_used:
                return await super().receive()
            raise RuntimeError("secret detail")

    server.owners.streams.append(Failing(event(SNAPSHOT, 1)))
    answer = await server.talk(post(STREAM))
    assert SNAPSHOT in answer
    assert not answer.endswith(b"0\r\n\r\n")
    assert b"secret" not in answer
    assert [line["event"] for line in captured] == ["request failed"]


async def test_a_stream_that_a_stopping_owner_ends_is_ended_properly(server):
    server.owners.streams.append(FakeStream(event(SNAPSHOT, 1), End(id=1, reason="drain")))
    async with await server.raw() as stream:
        await stream.send_all(post(STREAM))
        assert SNAPSHOT in await receive_until(stream, b"0\r\n\r\n")


async def test_fifteen_hundred_events_come_in_order(server):
    events = [event(b'{"n":%d}' % n, n + 1) for n in range(1500)]
    server.owners.streams.append(FakeStream(*events, End(id=1)))
    answer = await server.rpc("SubscribeToTask", {"id": TASK_ID})
    assert [json.loads(e.data)["result"]["n"] for e in sse.Decoder().feed(answer.body)] == list(range(1500))


@pytest.mark.parametrize("last", ["7", None, "x", "-1", "9" * 40, "1.0"])
async def test_last_event_id(server, last):
    server.owners.streams.append(FakeStream(End(id=1)))
    await server.rpc("SubscribeToTask", {"id": TASK_ID}, headers={} if last is None else {"Last-Event-ID": last})
    assert server.owners.calls[0][0].last_event_id == (7 if last == "7" else None)


async def test_a_client_that_leaves_ends_its_stream_at_once(server):
    server.owners.streams.append(FakeStream(event(SNAPSHOT, 1)))
    stream = await server.raw()
    await stream.send_all(post(STREAM))
    await receive_until(stream, SNAPSHOT)
    await stream.aclose()
    with trio.fail_after(1):
        await server.owners.gone.wait()


@pytest.mark.parametrize(
    ("setting", "request_", "cancels"),
    [
        (CancelOnDisconnect.BLOCKING, (True, False, False), True),
        (CancelOnDisconnect.BLOCKING, (True, False, True), False),
        (CancelOnDisconnect.BLOCKING, (False, False, False), False),
        (CancelOnDisconnect.BLOCKING, (True, True, False), False),
        (CancelOnDisconnect.ALWAYS, (True, False, False), True),
        (CancelOnDisconnect.ALWAYS, (False, False, False), True),
        (CancelOnDisconnect.ALWAYS, (True, True, True), True),
        (CancelOnDisconnect.ALWAYS, (True, False, True), False),
        (CancelOnDisconnect.NEVER, (True, False, False), False),
        (CancelOnDisconnect.NEVER, (True, True, False), False),
    ],
)
async def test_whose_run_ends_when_the_client_leaves(start, setting, request_, cancels):
    new, streaming, immediate = request_
    server = await start(ServerSettings(cancel_on_disconnect=setting))
    server.owners.streams.append(FakeStream(End(id=1)))
    message = MESSAGE if new else {**MESSAGE, "taskId": TASK_ID}
    method = "SendStreamingMessage" if streaming else "SendMessage"
    await server.rpc(method, {"message": message, "configuration": {"returnImmediately": immediate}})
    assert server.owners.calls[0][0].cancel_on_disconnect is cancels


async def test_a_blocking_send_is_left_when_its_client_leaves(server):
    server.owners.hold = trio.Event()
    stream = await server.raw()
    await stream.send_all(post(send_body()))
    with trio.fail_after(5):
        await server.owners.called.wait()
    await stream.aclose()
    with trio.fail_after(1):
        await server.owners.gone.wait()
    assert server.owners.left == [server.owners.calls[0][0]]
    assert (await server.request("GET", "/healthz", key=None)).status == 200


async def test_one_reader_that_stops_holds_up_nobody_and_is_dropped(start):
    server = await start(listener=ListenerSettings(send_seconds=0.5))
    stuck, other = FakeStream(), FakeStream()
    server.owners.streams += [stuck, other]
    big = b'{"pad":"' + b"x" * 100_000 + b'"}'
    stalled = await server.raw()
    await stalled.send_all(post(STREAM))
    await server.owners.called.wait()
    for _ in range(300):
        stuck.more.send_nowait(event(big))
    for n in range(1, 5001):
        other.more.send_nowait(event(b'{"n":%d}' % n, n))
    other.more.send_nowait(End(id=1))
    answer = await server.rpc("SubscribeToTask", {"id": TASK_ID})
    assert len(sse.Decoder().feed(answer.body)) == 5000
    with trio.fail_after(5):
        await server.owners.until(lambda owners: len(owners.left) == 2)
    await stalled.aclose()


async def test_a_stream_asked_for_in_a_drain_is_told_to_come_again(server):
    server.app.drain()
    answer = await server.rpc("SubscribeToTask", {"id": TASK_ID})
    assert answer.json["error"]["code"] == -32050
    assert (await server.request("POST", f"/a2a/v1/tasks/{TASK_ID}:subscribe")).status == 503
    assert server.owners.calls == []


async def test_a_drain_ends_streams_and_refuses_new_ones(start):
    server = await start(listener=ListenerSettings(drain_seconds=5))
    server.owners.streams.append(FakeStream(event(SNAPSHOT, 1)))
    async with await server.raw() as stream:
        await stream.send_all(post(STREAM))
        await receive_until(stream, SNAPSHOT)
        server.stopping.set()
        with trio.fail_after(2):
            rest = await until_closed(stream)
            await server.stopped.wait()
    assert rest.endswith(b"0\r\n\r\n")
