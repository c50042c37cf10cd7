"""Odd and hostile requests: at most that one connection ends, and every other caller is served (HS-03, F5)."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import time

import pytest

from tests.service.a2a import answer, sending

KEYED = "POST /a2a HTTP/1.1\r\nHost: x\r\nX-API-Key: {key}\r\nContent-Type: application/json\r\n"

REQUESTS = {
    "a websocket upgrade and a byte more": "GET /a2a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\nx",
    "an h2c upgrade with bad settings": "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    "HTTP2-Settings: !!!\r\n\r\n",
    "more body than said": KEYED + "Content-Length: 5\r\n\r\n{{}}12345",
    "a bad chunk size": KEYED + "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
    "a chunk cut short": KEYED + "Transfer-Encoding: chunked\r\n\r\n5\r\nab",
    "two lengths": KEYED + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
    "length and chunks": KEYED + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a negative length": KEYED + "Content-Length: -1\r\n\r\n",
    "a huge length": KEYED + "Content-Length: 99999999999999999999\r\n\r\n",
    "a very long header": KEYED + "X-Long: " + "a" * 100_000 + "\r\n\r\n",
    "very many headers": KEYED + "".join(f"X-{n}: 1\r\n" for n in range(20_000)) + "\r\n",
    "a NUL in the path": "GET /a2a\0 HTTP/1.1\r\nHost: x\r\n\r\n",
    "no host": "GET /healthz HTTP/1.1\r\n\r\n",
    "not HTTP": "hello there\r\n\r\n",
    "TLS to a plain port": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "an HTTP/2 preface": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    "a version nobody speaks": "GET / HTTP/7.3\r\n\r\n",
    "a space before the colon": KEYED + "X-Odd : 1\r\nContent-Length: 2\r\n\r\n{{}}",
    "a folded header": KEYED + "X-Odd: 1\r\n  more\r\nContent-Length: 2\r\n\r\n{{}}",
    "an absolute target": "GET http://evil.example/healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "CONNECT": "CONNECT evil.example:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    "percent rubbish": "GET /a2a/v1/tasks/%ff%zz%00 HTTP/1.1\r\nHost: x\r\nX-API-Key: {key}\r\n\r\n",
    "a long path": "GET /" + "a" * 50_000 + " HTTP/1.1\r\nHost: x\r\n\r\n",
    "expect continue": KEYED + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{{}}",
    "nothing at all": "",
}


@pytest.mark.parametrize("name", REQUESTS)
def test_an_odd_request_ends_no_more_than_its_own_connection(service, rpc, name):
    processes = {pattern: service.pids(pattern) for pattern in (r"edge-\d+", r"agents-\d+")}
    request = REQUESTS[name].format(key=rpc.key).encode("latin-1")
    task = rpc.send("ask")
    with rpc.stream("SubscribeToTask", {"id": task["id"]}) as stream:
        stream.next()
        for _ in range(2):
            answered = _talk(service, request)
            assert not answered.startswith(b"HTTP/1.1 5"), answered[:200]
            assert b"Traceback" not in answered
            assert b"<html" not in answered.lower()
        assert service.endpoint.request("GET", "/.well-known/agent-card.json").status == 200
        rpc.call("CancelTask", {"id": task["id"]})
        assert [event.state for event in stream][-1] == "CANCELED"
    assert answer(rpc.send("still up")) == "still up"
    assert {pattern: service.pids(pattern) for pattern in processes} == processes


def _talk(service, request):
    """Send bytes, half-close, and return what comes within a second."""
    received = b""
    with service.endpoint.connect() as raw, contextlib.suppress(OSError):
        raw.sendall(request)
        raw.shutdown(socket.SHUT_WR)
        raw.settimeout(0.3)
        while more := raw.recv(65536):
            received += more
    return received


def test_many_connections_that_say_nothing_do_not_keep_others_out(service, rpc):
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(service.endpoint.connect())
        assert answer(rpc.send("hi")) == "hi"


def test_a_body_that_does_not_come_is_given_up(make_service):
    service = make_service(environment={"A2A__Limits__BodySeconds": "1s"}, edges=1, workers=1).start()
    rpc = service.rpc()
    for path in ("/a2a", "/a2a/v1/message:send"):
        headers = {"Content-Type": "application/json", **rpc.headers()}
        started = time.monotonic()
        with service.endpoint.begin("POST", path, headers, b"{", length=100) as raw:
            raw.settimeout(5)
            received = b""
            while more := raw.recv(65536):
                received += more
        assert 0.5 < time.monotonic() - started < 3
        assert received.startswith((b"HTTP/1.1 4", b"HTTP/1.1 200")) or not received, received
    assert answer(rpc.send("hi")) == "hi"


def test_requests_that_come_in_one_packet_are_all_answered_in_order(service):
    one = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /nothing HTTP/1.1\r\nHost: x\r\n\r\n"
    answered = _talk(service, one * 20)
    statuses = re.findall(rb"HTTP/1\.1 (\d+)", answered)
    assert statuses == [b"200", b"404"] * 20


def test_a_connection_serves_one_request_after_another(service, rpc):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=10)) as connection:
        for number in range(50):
            body = json.dumps(sending(f"number {number}"))
            connection.request(
                "POST", "/a2a/v1/message:send", body, {"Content-Type": "application/json", "X-API-Key": rpc.key}
            )
            response = connection.getresponse()
            assert answer(json.loads(response.read())["task"]) == f"number {number}"


def test_unknown_paths_are_answered_as_json_without_a_key(service):
    for path in ("/", "/favicon.ico", "/a2", "/a2a2", "/.well-known/nothing", "/..%2f..%2fetc/passwd"):
        reply = service.endpoint.request("GET", path)
        assert reply.status == 404
        assert b"<" not in reply.body
