"""What one connection may do to the server: nothing."""

import socket

import pytest
import trio

from tests.server.conftest import post, receive_until, send_body, until_closed
from tests.server.fakes import FakeStream, event
from volcanic.server import connection as connection_module
from volcanic.server import exchange as exchange_module
from volcanic.server import http1 as http1_module
from volcanic.server import listener as listener_module
from volcanic.server import transport as transport_module
from volcanic.server.http1 import Http1
from volcanic.server.settings import ListenerSettings, ServerSettings

GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
OK = b'{"status":"up"}'


async def test_a_client_that_closes_its_sending_half_is_answered(server):
    async with await server.raw() as stream:
        await stream.send_all(post(send_body()) + GET)
        await stream.send_eof()
        with trio.fail_after(5):
            received = await until_closed(stream)
    assert b'"result"' in received
    assert received.endswith(OK)


async def test_a_client_that_closes_its_sending_half_has_a_moment_for_its_answer(server):
    server.owners.hold = trio.Event()
    async with await server.raw() as stream:
        await stream.send_all(post(send_body()))
        await stream.send_eof()
        await server.owners.called.wait()
        await trio.sleep(0.05)
        server.owners.hold.set()
        with trio.fail_after(5):
            assert b'"result"' in await until_closed(stream)


async def test_a_refused_framing_is_answered_in_json(server):
    answer = await server.talk(b"GET / HTTP/1.1\r\nHost : x\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: application/json" in answer
    assert answer.endswith(b'"message":"Malformed HTTP request"}}')


async def test_an_application_that_fails_costs_its_request_alone(start, captured):
    async def app(scope, receive, send):
        if scope["path"] == "/fail":
            raise ExceptionGroup("several", [ValueError("one"), KeyError("two")])
        if scope["path"] == "/half":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            raise ValueError("half")
        if scope["path"] == "/silent":
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    server = await start(app=app)
    assert (await server.request("GET", "/fail")).status == 500
    assert (await server.request("GET", "/silent")).status == 500
    half = await server.talk(b"GET /half HTTP/1.1\r\nHost: x\r\n\r\n")
    assert half.startswith(b"HTTP/1.1 200 ")
    assert not half.endswith(b"0\r\n\r\n")
    assert (await server.request("GET", "/")).body == b"ok"
    assert len([line for line in captured if line["event"] == "request failed"]) == 2


async def test_a_fault_in_the_protocol_costs_its_connection_alone(server, captured, monkeypatch):
    original = Http1._start

    async def explode(self, request):
        if request.target == b"/explode":
            raise RuntimeError("a bug in the protocol")
        await original(self, request)

    monkeypatch.setattr(Http1, "_start", explode)
    answer = await server.talk(b"GET /explode HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer in (b"", b"<reset>")
    assert (await server.request("GET", "/healthz")).status == 200
    assert [line["event"] for line in captured] == ["connection failed"]


async def test_a_fault_before_the_first_byte_costs_its_connection_alone(server, captured, monkeypatch):
    failures = [RuntimeError("a bug in the handshake")]
    original = transport_module.PlainTransport.handshake

    async def handshake(self):
        if failures:
            raise failures.pop()
        return await original(self)

    monkeypatch.setattr(transport_module.PlainTransport, "handshake", handshake)
    assert await server.talk(GET) in (b"", b"<reset>")
    assert (await server.request("GET", "/healthz")).status == 200
    assert [line["event"] for line in captured] == ["connection failed"]


async def test_requests_on_one_connection(server):
    async with await server.raw() as stream:
        for _ in range(3):
            await stream.send_all(GET)
            await receive_until(stream, OK)


async def test_pipelined_requests_are_each_answered_once_and_in_order(server):
    requests = b"".join(
        post(send_body(id_text := f"n{n}").replace(b'"id": 1', b'"id": "%s"' % id_text.encode())) for n in range(200)
    )
    async with await server.raw() as stream:
        await stream.send_all(requests)
        received = await receive_until(stream, b'"id":"n199"')
    places = [received.index(b'"id":"n%d"' % n) for n in range(200)]
    assert places == sorted(places)
    assert received.count(b"HTTP/1.1 200 ") == 200


async def test_the_absolute_form_of_a_target(server):
    async with await server.raw() as stream:
        await stream.send_all(b"GET http://elsewhere.example/healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        await receive_until(stream, OK)


async def test_continue_is_sent_only_when_the_body_is_wanted(server):
    body = send_body()
    head, _, _ = post(body, b"/a2a", b"Expect: 100-continue").partition(body)
    async with await server.raw() as stream:
        await stream.send_all(head)
        assert (await receive_until(stream, b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        await stream.send_all(body)
        await receive_until(stream, b'"result"')
    async with await server.raw() as stream:
        await stream.send_all(head.replace(b"X-API-Key: k", b"X-API-Key: wrong"))
        assert (await receive_until(stream, b"\r\n\r\n")).startswith(b"HTTP/1.1 401 ")


async def send_for_ever(stream):
    while True:
        await stream.send_all(b"x" * 50_000)


async def test_a_body_that_the_application_does_not_take_holds_its_sender_back(start):
    reading = trio.Event()
    sizes: dict[str, list[int]] = {"/first": [], "/second": []}

    async def app(scope, receive, send):
        read = sizes[scope["path"]]
        await reading.wait()
        while (message := await receive()).get("more_body"):
            read.append(len(message["body"]))
        read.append(len(message["body"]))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    server = await start(app=app)
    size = 40_000_000
    async with await server.raw() as stream:
        with trio.move_on_after(0.5) as sending:
            await stream.send_all(post(b"x" * size, b"/first"))
        assert sending.cancelled_caught
    reading.set()
    async with await server.raw() as stream:
        with trio.fail_after(20):
            await stream.send_all(post(b"x" * size, b"/second"))
            await receive_until(stream, b"ok")
    read = sizes["/second"]
    assert sum(read) == size
    assert max(read) <= exchange_module.BODY_BUFFER + 65536


async def test_an_unwanted_body_is_not_read_for_ever(start, monkeypatch):
    monkeypatch.setattr(connection_module, "LINGER_BYTES", 100_000)
    server = await start(listener=ListenerSettings(linger_seconds=60))
    async with await server.raw() as stream:
        await stream.send_all(post(b"", key="wrong", length=10**9))
        await receive_until(stream, b"UNAUTHENTICATED")
        with trio.fail_after(5), pytest.raises(trio.BrokenResourceError):
            await send_for_ever(stream)


async def test_the_rest_of_an_unwanted_body_may_come_late(server):
    async with await server.raw() as stream:
        await stream.send_all(post(b"", key="wrong", length=10**6))
        await receive_until(stream, b"UNAUTHENTICATED")
        for _ in range(3):  # a reset would show at the second
            await trio.sleep(0.15)
            await stream.send_all(b"x" * 1000)


async def test_a_closed_transport_waits_on_nothing():
    ours, theirs = socket.socketpair()
    with theirs:
        ours.setblocking(False)
        transport = transport_module.PlainTransport(ours)
        transport.close()
        with pytest.raises(trio.ClosedResourceError):
            await transport.send(memoryview(b"x"))
        assert await transport.receive() == b""


async def test_slow_heads_are_cut_off_and_a_first_byte_restarts_no_clock(start):
    server = await start(listener=ListenerSettings(header_seconds=0.3))
    async with await server.raw() as stream:
        began = trio.current_time()
        with trio.fail_after(3):
            for byte in b"GET /healthz HTTP/1.1\r\nX: " + b"y" * 100:
                try:
                    await stream.send_all(bytes((byte,)))
                except trio.BrokenResourceError:
                    break
                await trio.sleep(0.05)
        assert trio.current_time() - began < 2.5


async def test_a_silent_connection_is_closed(start):
    server = await start(listener=ListenerSettings(header_seconds=0.2))
    assert await server.talk(b"", seconds=2) == b""


async def test_the_idle_time_counts_between_requests_only(start):
    server = await start(ServerSettings(), ListenerSettings(keep_alive_seconds=0.4, header_seconds=5))
    async with await server.raw() as stream:
        for pause in (0.2, 0.2, 0.2):
            await stream.send_all(GET)
            await receive_until(stream, OK)
            await trio.sleep(pause)
        server.owners.hold = trio.Event()
        await stream.send_all(post(send_body()))
        await trio.sleep(0.8)  # a slow answer is not idleness
        server.owners.hold.set()
        await receive_until(stream, b'"result"')
        with trio.fail_after(2):
            assert await until_closed(stream) == b""


async def test_the_rest_of_a_second_head_must_come_soon(start):
    server = await start(listener=ListenerSettings(header_seconds=0.3, keep_alive_seconds=30))
    async with await server.raw() as stream:
        await stream.send_all(GET)
        await receive_until(stream, OK)
        await stream.send_all(GET[:10])
        with trio.fail_after(2):
            assert await until_closed(stream) == b""


async def test_a_full_server_makes_room_by_closing_idle_connections(start):
    server = await start(listener=ListenerSettings(connections=5))
    idle = [await server.raw() for _ in range(5)]
    for stream in idle:
        await stream.send_all(GET)
        await receive_until(stream, OK)
    assert (await server.request("GET", "/healthz")).status == 200
    for stream in idle:
        await stream.aclose()


async def test_a_server_full_of_work_lets_new_connections_wait(start, captured):
    server = await start(listener=ListenerSettings(connections=3))
    server.owners.hold = trio.Event()
    busy = [await server.raw() for _ in range(3)]
    for stream in busy:
        await stream.send_all(post(send_body()))
    with trio.fail_after(5):
        await server.owners.until(lambda owners: len(owners.calls) == 3)
    async with await server.raw() as waiting:
        await waiting.send_all(GET)
        with trio.move_on_after(0.3) as scope:
            await waiting.receive_some(1)
        assert scope.cancelled_caught
        server.owners.hold.set()  # they are idle now, and stay open
        await receive_until(waiting, OK, seconds=2)
    for stream in busy:
        await stream.aclose()
    assert "connection limit reached" in captured[0]["event"]


async def test_running_out_of_descriptors_pauses_accepting(start, monkeypatch, captured):
    server = await start()
    real = socket.socket.accept
    failures: list[int] = []

    def accept(self):
        if len(failures) < 3:
            failures.append(1)
            raise OSError(24, "Too many open files")
        return real(self)

    monkeypatch.setattr(socket.socket, "accept", accept)
    began = trio.current_time()
    assert (await server.request("GET", "/healthz")).status == 200
    assert len(failures) == 3
    assert trio.current_time() - began > 2.5 * listener_module.FULL_SECONDS
    assert [line["event"] for line in captured] == ["cannot accept"]


async def test_a_peer_may_be_turned_away(start):
    server = await start(admit=lambda _: False)
    assert await server.talk(GET) in (b"", b"<reset>")


async def test_a_drain_answers_what_is_running_and_closes_the_rest(start):
    server = await start(listener=ListenerSettings(drain_seconds=5))
    server.owners.hold = trio.Event()
    idle, busy = await server.raw(), await server.raw()
    await idle.send_all(GET)
    await receive_until(idle, OK)
    await busy.send_all(post(send_body()))
    await server.owners.called.wait()
    server.stopping.set()
    with trio.fail_after(3):
        assert await until_closed(idle) == b""
        await idle.aclose()
        server.owners.hold.set()
        answer = await until_closed(busy)
        await busy.aclose()
        await server.stopped.wait()
    assert b"connection: close" in answer
    assert b'"result"' in answer


async def test_a_drain_ends_in_time_whatever_is_running(start):
    server = await start(listener=ListenerSettings(drain_seconds=0.3))
    server.owners.hold = trio.Event()
    async with await server.raw() as stream:
        await stream.send_all(post(send_body()))
        await server.owners.called.wait()
        server.stopping.set()
        with trio.fail_after(2):
            await server.stopped.wait()
            await until_closed(stream)


@pytest.mark.parametrize("how", ["drain", "cancel"])
async def test_a_client_that_does_not_read_does_not_keep_the_server_from_stopping(start, nursery, how):
    server = await start(listener=ListenerSettings(drain_seconds=0.3, send_seconds=60))
    stuck = FakeStream(*[event(b'{"pad":"' + b"x" * 100_000 + b'"}') for _ in range(300)])
    server.owners.streams.append(stuck)
    async with await server.raw() as stream:
        await stream.send_all(post(b'{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"t"}}'))
        await server.owners.called.wait()
        await trio.sleep(0.3)
        if how == "drain":
            server.stopping.set()
            with trio.fail_after(2):
                await server.stopped.wait()
        else:
            nursery.cancel_scope.cancel()


async def test_a_busy_pipeline_does_not_starve_others(server, nursery):
    async def flood():
        async with await server.raw() as stream:
            while True:
                await stream.send_all(GET * 200)
                await stream.receive_some(1_000_000)

    nursery.start_soon(flood)
    with trio.fail_after(5):
        for _ in range(10):
            assert (await server.request("GET", "/healthz")).status == 200
    nursery.cancel_scope.cancel()


async def test_a_client_that_pipelined_more_and_left_is_gone(server, monkeypatch):
    monkeypatch.setattr(http1_module, "LOOK_SECONDS", 0.05)
    server.owners.hold = trio.Event()
    stream = await server.raw()
    await stream.send_all(post(send_body()) + b"G")
    with trio.fail_after(5):
        await server.owners.called.wait()
        await stream.aclose()
        await server.owners.gone.wait()
    assert len(server.owners.left) == 1
