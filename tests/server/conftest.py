"""A server on a real socket over fake owners, and clients that speak to it as the world does."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import subprocess
from functools import partial

import attrs
import pytest
import structlog
import trio

from tests.server.fakes import FakeCards, FakeOwners
from volcanic.server.app import build_app
from volcanic.server.listener import serve
from volcanic.server.settings import ListenerSettings, ServerSettings
from volcanic.storage.callers import CallerBook
from volcanic.storage.layout import WorkspaceLayout

KEY = "k_travel_0123456789abcdef"
OTHER_KEY = "k_other_0123456789abcdefg"


@attrs.define
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


@attrs.define
class Running:
    """A server being served; `request` is one exchange on a connection of its own."""

    port: int
    owners: FakeOwners
    cards: FakeCards
    stopping: trio.Event
    stopped: trio.Event
    app: object

    async def request(self, method: str, path: str, body=None, headers=(), *, key: str | None = KEY) -> Answer:
        named = dict(headers)
        if key is not None:
            named["X-API-Key"] = key
        return await trio.to_thread.run_sync(partial(self._request, method, path, body, named))

    def _request(self, method, path, body, headers) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    async def rpc(self, method: str, params=None, *, call_id=1, headers=(), key: str | None = KEY) -> Answer:
        call = {"jsonrpc": "2.0", "id": call_id, "method": method}
        if params is not None:
            call["params"] = params
        named = {"Content-Type": "application/json", **dict(headers)}
        return await self.request("POST", "/a2a", json.dumps(call), named, key=key)

    async def raw(self) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", self.port)

    async def talk(self, data: bytes, seconds: float = 10) -> bytes:
        """Send bytes on a connection of their own; return everything up to the server's end of it."""
        with trio.fail_after(seconds):
            stream = await self.raw()
            async with stream:
                await stream.send_all(data)
                return await until_closed(stream)


async def until_closed(stream) -> bytes:
    received = b""
    try:
        while piece := await stream.receive_some(65536):
            received += piece
    except trio.BrokenResourceError:
        received += b"<reset>"
    return received


async def receive_until(stream, mark: bytes, seconds: float = 10) -> bytes:
    received = b""
    with trio.fail_after(seconds):
        while mark not in received:
            piece = await stream.receive_some(65536)
            assert piece, f"closed after {received!r}"
            received += piece
    return received


def post(body: bytes, path: bytes = b"/a2a", *extra: bytes, key: str = KEY, length: int | None = None) -> bytes:
    """Return the bytes of a POST with a key."""
    lines = [
        b"POST " + path + b" HTTP/1.1",
        b"Host: localhost",
        b"X-API-Key: " + key.encode(),
        b"Content-Type: application/json",
        b"Content-Length: %d" % (len(body) if length is None else length),
        *extra,
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def send_body(text: str = "hi", **members) -> bytes:
    message = {"role": "ROLE_USER", "messageId": "m1", "parts": [{"text": text}]}
    return json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message, **members}}
    ).encode()


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "ws" / ".volcanic" / "a2a"
    folder.mkdir(parents=True)
    callers = [{"name": "travel-bot", "key": KEY}, {"name": "other", "key": OTHER_KEY}]
    (folder / "callers.json").write_text(json.dumps(callers))
    return tmp_path / "ws"


@pytest.fixture
async def start(nursery, workspace):
    """Return a function that starts a server with settings of the test's choice."""

    async def start(settings=None, listener=None, app=None, admit=None) -> Running:
        settings = settings or ServerSettings(booted=1_790_000_000.0)
        owners, cards = FakeOwners(), FakeCards()
        served = app or build_app(owners, CallerBook([WorkspaceLayout(str(workspace))]), cards, settings)
        listening = socket.create_server(("127.0.0.1", 0), backlog=512)
        port = listening.getsockname()[1]
        stopping, stopped = trio.Event(), trio.Event()

        async def run():
            more = {"admit": admit} if admit else {}
            drain = getattr(served, "drain", lambda: None)
            try:
                await serve(
                    [listening],
                    served,
                    listener or ListenerSettings(),
                    stopping,
                    on_drain=drain,
                    **more,
                )
            finally:
                stopped.set()

        nursery.start_soon(run)
        await trio.lowlevel.checkpoint()
        return Running(port, owners, cards, stopping, stopped, served)

    return start


@pytest.fixture
async def server(start):
    return await start()


@pytest.fixture
def captured():
    """Return the log lines of the test as dictionaries."""
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs the openssl program to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    certfile, keyfile = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            openssl,
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
            "-keyout",
            keyfile,
            "-out",
            certfile,
        ],
        check=True,
        capture_output=True,
    )
    return str(certfile), str(keyfile)
