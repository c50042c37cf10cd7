"""Bytes no decent client sends: they cost their own connection and nothing else."""

import socket
import struct

import pytest
import trio

from tests.server.conftest import post, receive_until, until_closed
from tests.server.fakes import FakeStream, event
from volcanic.server.settings import ListenerSettings

GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
OK = b'{"status":"up"}'

HOSTILE = {
    "websocket upgrade and a byte": (
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\nx"
    ),
    "h2c upgrade with bad settings": (
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: !!\r\n\r\n"
    ),
    "more body than declared": post(b"123456789", length=5),
    "bad chunk size": post(b"", length=0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    + b"zz\r\nabc\r\n",
    "a header line of 100 kB": b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
    "NUL in the path": b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a path of no ASCII": b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    "an encoded path of no UTF-8": b"GET /%ff%fe HTTP/1.1\r\nHost: x\r\n\r\n",
    "a method of no token": b"G(T / HTTP/1.1\r\nHost: x\r\n\r\n",
    "CONNECT": b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two lengths": b"POST /a2a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "length and chunked": b"POST /a2a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "space before the colon": b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
    "HTTP/2 preface without h2c": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    "TLS to a plain port": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    "noise": bytes(range(256)) * 20,
    "nothing but line ends": b"\r\n" * 1000,
    "HTTP/0.9": b"GET /\r\n",
    "a huge length": post(b"", length=10**18),
    "a negative length": post(b"").replace(b"Content-Length: 0", b"Content-Length: -1"),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("ending", ["half-close", "wait", "reset"])
async def test_a_hostile_connection_is_lost_alone(start, name, ending, captured):
    server = await start(listener=ListenerSettings(header_seconds=0.3, linger_seconds=0.2, keep_alive_seconds=0.5))
    live = FakeStream(event(b'{"n":1}', 1))
    server.owners.streams.append(live)
    async with await server.raw() as bystander:
        call = b'{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"t"}}'
        await bystander.send_all(post(call))
        await receive_until(bystander, b'{"n":1}')
        stream = await server.raw()
        with trio.fail_after(5):
            try:
                await stream.send_all(HOSTILE[name])
                if ending == "half-close":
                    await stream.send_eof()
                if ending == "reset":
                    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                else:
                    received = await until_closed(stream)
                    assert received.count(b"HTTP/1.1 ") <= 2  # one answer a request, and one to what trails it
                    assert b"HTTP/1.1 5" not in received
            except trio.BrokenResourceError:
                pass
            await stream.aclose()
        assert (await server.request("GET", "/.well-known/agent-card.json", key=None)).status == 200
        await live.more.send(event(b'{"n":2}', 2))
        await receive_until(bystander, b'{"n":2}')
    assert not [line for line in captured if line["log_level"] == "error"]


async def test_an_upgrade_is_served_as_plain_http(server):
    for name in ("websocket upgrade and a byte", "h2c upgrade with bad settings"):
        async with await server.raw() as stream:
            await stream.send_all(HOSTILE[name].rstrip(b"x"))
            assert OK in await receive_until(stream, OK)


async def test_a_query_in_an_absolute_target_is_no_path(server):
    answer = await server.talk(b"GET http://x?x=/healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 404")


@pytest.mark.parametrize(
    "head",
    [
        b"POST /a2a HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        b"POST /a2a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n",
    ],
)
async def test_a_body_whose_end_is_told_twice_is_refused_and_nothing_after_it_is_read(server, head):
    answer = await server.talk(head + b"Host: x\r\n\r\n0\r\n\r\n" + GET)
    assert answer.startswith(b"HTTP/1.1 400")
    assert OK not in answer
