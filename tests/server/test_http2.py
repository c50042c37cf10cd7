"""HTTP/2, well-behaved and not. Clients speak it by prior knowledge; TLS and ALPN have a test of their own."""

import json
import ssl
from contextlib import asynccontextmanager

import h2.errors
import h2.settings
import pytest
import trio
from hypercorn.trio.worker_context import EventWrapper

from actors.messages import End
from tests.server.conftest import KEY, send_body
from tests.server.fakes import FakeStream, event
from tests.server.h2client import H2Client
from volcanic.server import http2
from volcanic.server.settings import ListenerSettings, ServerSettings

RPC = [("x-api-key", KEY), ("content-type", "application/json")]
SUBSCRIBE = b'{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"t"}}'


@asynccontextmanager
async def connected(server, **options):
    async with await server.raw() as stream:
        yield await H2Client(stream, **options).start()


@pytest.fixture
async def h2c(start):
    return await start(listener=ListenerSettings(h2c=True, drain_seconds=5))


async def test_requests_and_streams_share_a_connection(h2c):
    live = FakeStream(event(b'{"n":1}', 1))
    h2c.owners.streams.append(live)
    async with connected(h2c) as client:
        streaming = await client.request("POST", "/a2a", SUBSCRIBE, headers=RPC)
        await client.until(lambda: b'{"n":1}' in client.data[streaming])
        sending = await client.request("POST", "/a2a", send_body(), headers=RPC)
        status, body = await client.answer(sending)
        assert (status, "task" in json.loads(body)["result"]) == ("200", True)
        head = await client.request("HEAD", "/.well-known/agent-card.json")
        assert (await client.answer(head))[0] == "200"
        live.more.send_nowait(End(id=1))
        await client.answer(streaming)
        assert streaming in client.ended
        assert not client.resets


async def test_it_must_be_allowed(server):
    answer = await server.talk(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")


async def test_a_large_body_and_a_large_answer(h2c):
    async with connected(h2c) as client:
        stream_id = await client.request("POST", "/a2a", send_body("x" * 3_000_000), headers=RPC)
        assert (await client.answer(stream_id))[0] == "200"
        assert len(h2c.owners.calls[0][0].message.parts[0].text) == 3_000_000
        assert client.connection.outbound_flow_control_window <= 65_535, "no byte's window is given back twice"
        h2c.owners.streams.append(FakeStream(event(b'"' + b"y" * 3_000_000 + b'"'), End(id=1)))
        stream_id = await client.request("POST", "/a2a", SUBSCRIBE, headers=RPC)
        assert len((await client.answer(stream_id))[1]) > 3_000_000


async def test_a_body_after_the_answer_ends_nothing_and_keeps_no_window(h2c):
    async with connected(h2c) as client:
        for _ in range(8):  # more in all than the connection's window of 64 KiB
            stream_id = await client.request("POST", "/a2a", b"x" * 10_000, headers=[("x-api-key", "wrong")], end=False)
            await client.until(lambda s=stream_id: ":status" in client.headers.get(s, {}))
            assert client.headers[stream_id][":status"] == "401"
            try:
                await client.send(stream_id, b"y" * 10_000)
            except Exception as error:  # noqa: BLE001 - the server may have asked for no more meanwhile
                assert "Stream" in type(error).__name__  # noqa: PT017
        stream_id = await client.request("POST", "/a2a", send_body("x" * 300_000), headers=RPC)
        assert (await client.answer(stream_id))[0] == "200"


async def test_padding_keeps_no_window(h2c):
    body = send_body("x" * 400)
    async with connected(h2c) as client:
        stream_id = await client.request("POST", "/a2a", headers=RPC, end=False)
        for start in range(len(body)):
            while client.connection.local_flow_control_window(stream_id) < 257:
                await client.step()
            client.connection.send_data(stream_id, body[start : start + 1], pad_length=255)
            await client.flush()
        client.connection.end_stream(stream_id)
        await client.flush()
        assert (await client.answer(stream_id))[0] == "200"


async def test_the_rest_of_an_unwanted_body_is_refused(h2c):
    async with connected(h2c) as client:
        stream_id = await client.request("POST", "/a2a", b"x", headers=[("x-api-key", "wrong")], end=False)
        await client.until(lambda: stream_id in client.resets)
        assert client.resets[stream_id] == h2.errors.ErrorCodes.NO_ERROR
        assert client.headers[stream_id][":status"] == "401"
        assert b"UNAUTHENTICATED" in client.data[stream_id]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/\xe9"), ("GET", "no-slash"), ("GET", "*"), ("G\xc9T", "/healthz"), ("G T", "/healthz")],
)
async def test_a_malformed_request_costs_its_stream_alone(h2c, method, path, captured):
    async with connected(h2c) as client:
        bad = await client.request(method, path)
        await client.until(lambda: client.resets or client.goaway is not None)
        assert client.resets.get(bad) == h2.errors.ErrorCodes.PROTOCOL_ERROR
        assert (await client.answer(await client.request()))[0] == "200"
    assert captured == []


@pytest.mark.parametrize("head", [[(":authority", "x:1")], [(":authority", "x:1"), (":path", "/")], []])
async def test_connect_costs_its_connection_at_most(h2c, head):
    async with connected(h2c) as client:
        stream_id = client.connection.get_next_available_stream_id()
        client.connection.send_headers(stream_id, [(":method", "CONNECT"), *head], end_stream=True)
        await client.flush()
        await client.until(lambda: client.resets or client.goaway is not None)
        assert client.headers == {}
    assert (await h2c.request("GET", "/healthz")).status == 200


async def test_priority_frames_are_ignored(h2c, captured):
    async with connected(h2c) as client:
        for number in range(1, 5001, 2):
            client.connection.prioritize(number + 10_000, weight=10, depends_on=0)
        await client.flush()
        assert (await client.answer(await client.request()))[0] == "200"
    assert captured == []


async def test_a_flood_of_resets_ends_its_connection(h2c, monkeypatch):
    monkeypatch.setattr(http2, "RESETS_ALLOWED", 20)
    async with connected(h2c) as client:
        with pytest.raises((EOFError, trio.BrokenResourceError)):
            await _flood(client)
    assert (await h2c.request("GET", "/healthz")).status == 200


async def _flood(client):
    for _ in range(200):
        stream_id = await client.request("POST", "/a2a", b"x", headers=RPC, end=False)
        client.connection.reset_stream(stream_id)
        await client.flush()
    await client.until(lambda: False)


async def test_a_reset_leaves_its_call(h2c):
    h2c.owners.hold = trio.Event()
    async with connected(h2c) as client:
        stream_id = await client.request("POST", "/a2a", send_body(), headers=RPC)
        with trio.fail_after(5):
            await h2c.owners.called.wait()
        client.connection.reset_stream(stream_id)
        await client.flush()
        with trio.fail_after(1):
            await h2c.owners.gone.wait()
        assert (await client.answer(await client.request()))[0] == "200"


async def test_a_client_that_gives_no_window_is_held_back_and_loses_its_stream(h2c, monkeypatch):
    monkeypatch.setattr(http2, "STALL_SECONDS", 0.5)
    events = FakeStream(*[event(b'{"pad":"' + b"x" * 10_000 + b'"}') for _ in range(2000)])
    h2c.owners.streams.append(events)
    async with connected(h2c, acknowledge=False) as client:
        stream_id = await client.request("POST", "/a2a", SUBSCRIBE, headers=RPC)
        await client.until(lambda: len(client.data[stream_id]) >= 65_535)
        await trio.sleep(0.2)
        left = events._inbox.statistics().current_buffer_used
        assert left > 1900, "the events pile up in front of the stream, not in its buffer"
        await client.until(lambda: stream_id in client.resets)
        assert client.resets[stream_id] == h2.errors.ErrorCodes.CANCEL
        with trio.fail_after(1):
            await h2c.owners.gone.wait()
    assert (await h2c.request("GET", "/healthz")).status == 200


async def test_a_small_answer_that_is_never_taken_loses_its_stream(h2c, monkeypatch):
    monkeypatch.setattr(http2, "STALL_SECONDS", 0.3)
    async with connected(h2c) as client:
        client.connection.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
        stream_id = await client.request(path="/.well-known/agent-card.json")
        await client.until(lambda: stream_id in client.resets)
        assert client.resets[stream_id] == h2.errors.ErrorCodes.CANCEL
        assert not client.data[stream_id]


async def test_a_writer_waits_for_as_long_as_something_is_taken(monkeypatch, nursery):
    monkeypatch.setattr(http2, "STALL_SECONDS", 0.2)
    buffer = http2.BoundedBuffer(EventWrapper)
    nursery.start_soon(buffer.push, b"x" * 200_000)
    while buffer.buffer or not buffer._is_empty.is_set():
        await trio.sleep(0.1)
        assert len(await buffer.pop(16_384)) > 0


async def test_a_body_that_the_application_does_not_take_holds_its_sender_back(start):
    async def app(scope, receive, send):
        await trio.sleep_forever()

    server = await start(listener=ListenerSettings(h2c=True), app=app)
    async with connected(server) as client:
        stream_id = await client.request("POST", "/", end=False)
        with trio.move_on_after(0.5) as sending:
            await client.send(stream_id, b"x" * 1_000_000)
        assert sending.cancelled_caught
        assert client.connection.outbound_flow_control_window == 0
        client.connection.ping(b"12345678")  # the connection itself is not held back
        await client.flush()
        await client.until(lambda: client.pongs)


async def test_a_slow_reader_that_takes_something_keeps_its_stream(h2c, monkeypatch):
    monkeypatch.setattr(http2, "STALL_SECONDS", 0.3)
    body = b'"' + b"y" * 200_000 + b'"'
    h2c.owners.streams.append(FakeStream(event(body), End(id=1)))
    async with connected(h2c, acknowledge=False) as client:
        stream_id = await client.request("POST", "/a2a", SUBSCRIBE, headers=RPC)
        taken = 0
        while stream_id not in client.ended:
            assert not client.resets
            with trio.move_on_after(0.1):
                await client.step()
            got = len(client.data[stream_id])
            if got > taken and stream_id not in client.ended:
                client.connection.increment_flow_control_window(16_384)
                client.connection.increment_flow_control_window(16_384, stream_id)
                taken = min(got, taken + 16_384)
                await client.flush()
        assert body in client.data[stream_id]


async def test_a_client_that_reads_nothing_at_all_does_not_keep_the_server_from_stopping(start):
    server = await start(listener=ListenerSettings(h2c=True, drain_seconds=0.3, send_seconds=60))
    server.owners.streams.append(FakeStream(*[event(b'"' + b"x" * 100_000 + b'"') for _ in range(300)]))
    async with await server.raw() as stream:
        client = H2Client(stream)
        await client.start()
        client.connection.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 2**31 - 1})
        client.connection.increment_flow_control_window(2**31 - 1 - 65_535)
        await client.request("POST", "/a2a", SUBSCRIBE, headers=RPC)
        await server.owners.called.wait()
        await trio.sleep(0.3)
        server.stopping.set()
        with trio.fail_after(2):
            await server.stopped.wait()


async def test_a_drain_says_goodbye_and_finishes_what_runs(h2c):
    h2c.owners.hold = trio.Event()
    async with connected(h2c) as idle, connected(h2c) as busy:
        await idle.answer(await idle.request())
        sending = await busy.request("POST", "/a2a", send_body(), headers=RPC)
        await h2c.owners.called.wait()
        h2c.stopping.set()
        with trio.fail_after(3):
            with pytest.raises(EOFError):
                await idle.until(lambda: False)
            assert idle.goaway == h2.errors.ErrorCodes.NO_ERROR
            late = await busy.request()
            await busy.until(lambda: late in busy.resets)
            assert busy.resets[late] == h2.errors.ErrorCodes.REFUSED_STREAM
            h2c.owners.hold.set()
            assert (await busy.answer(sending))[0] == "200"
            with pytest.raises(EOFError):
                await busy.until(lambda: False)


async def test_an_idle_connection_is_told_before_it_is_closed(start):
    h2c = await start(listener=ListenerSettings(h2c=True, keep_alive_seconds=0.2))
    async with connected(h2c) as client:
        await client.answer(await client.request())
        with pytest.raises(EOFError):
            await client.until(lambda: False, seconds=3)
        assert client.goaway == h2.errors.ErrorCodes.NO_ERROR


async def test_noise_after_the_preface_ends_its_connection_alone(start):
    h2c = await start(listener=ListenerSettings(h2c=True, header_seconds=0.2, linger_seconds=0.2))
    for noise in (
        b"\xff" * 100,
        b"GET / HTTP/1.1\r\n\r\n",
        bytes(9) * 10,
        b"\x00\x40\x00\x01\x00\x00\x00\x00\x01" + b"z" * 100,
    ):
        answer = await h2c.talk(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + noise)
        assert b"HTTP/1.1" not in answer
    assert (await h2c.request("GET", "/healthz")).status == 200


@pytest.mark.parametrize("alpn", ["h2", "http/1.1", None])
async def test_tls(start, certificate, alpn):
    server = await start(
        ServerSettings(), ListenerSettings(certfile=certificate[0], keyfile=certificate[1], drain_seconds=2)
    )
    context = ssl.create_default_context(cafile=certificate[0])
    if alpn:
        context.set_alpn_protocols([alpn])
    stream = trio.SSLStream(await server.raw(), context, server_hostname="localhost", https_compatible=True)
    async with stream:
        await stream.do_handshake()
        assert stream.selected_alpn_protocol() == alpn
        if alpn == "h2":
            client = await H2Client(stream).start()
            status, body = await client.answer(await client.request(path="/.well-known/agent-card.json"))
        else:
            await stream.send_all(
                b"GET /.well-known/agent-card.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            )
            received = b""
            while piece := await stream.receive_some(65536):
                received += piece
            head, _, body = received.partition(b"\r\n\r\n")
            status = head.split()[1].decode()
        assert status == "200"
        assert json.loads(body)["supportedInterfaces"][0]["url"].startswith("https://localhost")


async def test_a_tls_handshake_that_never_ends_is_cut_off(start, certificate):
    server = await start(listener=ListenerSettings(certfile=certificate[0], keyfile=certificate[1], header_seconds=0.2))
    assert await server.talk(b"", seconds=3) in (b"", b"<reset>")
    assert (await server.talk(b"GET / HTTP/1.1\r\n\r\n", seconds=3)).count(b"HTTP/1.1") == 0
