"""Speaking A2A to the running service as any caller would: plain `http.client`, both bindings, server-sent events."""

from __future__ import annotations

import abc
import contextlib
import http.client
import json
import socket
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tests.service.a2a import (
    BAD_REQUEST,
    ERROR_INFO,
    KINDS,
    OWN_REASONS,
    Json,
    envelope,
    rest_request,
    sending,
    state_of,
)
from tests.service.streams import Stream


@dataclass
class Reply:
    """One HTTP answer, whole."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        """The body, which must be JSON."""
        return json.loads(self.body)

    @property
    def media_type(self) -> str:
        """The content type without its parameters."""
        return (self.headers.get("Content-Type") or "").partition(";")[0].strip().lower()

    @property
    def comparable(self) -> tuple[int, list[tuple[str, str]], bytes]:
        """All that a caller can see of it but the clock."""
        headers = sorted((name.lower(), value) for name, value in self.headers.items() if name.lower() != "date")
        return self.status, headers, self.body


@dataclass
class Endpoint:
    """Where a service listens, and how to send it one request."""

    host: str
    port: int
    timeout: float = 30.0

    def connect(self, *, receive_buffer: int | None = None) -> socket.socket:
        """Return a raw connection for what no HTTP client would send."""
        raw = socket.socket()
        try:
            if receive_buffer is not None:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            raw.settimeout(self.timeout)
            raw.connect((self.host, self.port))
        except BaseException:
            raw.close()
            raise
        return raw

    def begin(
        self, verb: str, path: str, headers: dict[str, str], body: bytes = b"", length: int | None = None
    ) -> socket.socket:
        """Send a request, or as much of it as `body` is of `length`, and return the connection with the answer unread."""
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        size = len(body) if length is None else length
        raw = self.connect()
        try:
            raw.sendall(f"{verb} {path} HTTP/1.1\r\nHost: x\r\n{head}Content-Length: {size}\r\n\r\n".encode() + body)
        except BaseException:
            raw.close()
            raise
        return raw

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Reply:
        """Send one request on a connection of its own."""
        with contextlib.closing(http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)) as connection:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())


def read_until(raw: socket.socket, mark: bytes) -> bytes:
    """Return what a raw connection gives up to and including the mark, and maybe more."""
    received = b""
    while mark not in received:
        more = raw.recv(65536)
        assert more, f"closed before {mark!r}: {received!r}"
        received += more
    return received


class RefusedError(Exception):
    """A call was answered with an error."""

    def __init__(self, reply: Reply, kind: str, message: str):
        super().__init__(f"{kind}: {message} (HTTP {reply.status})")
        self.reply = reply
        self.kind = kind
        self.message = message

    @property
    def fields(self) -> list[str]:
        """The fields that a BadRequest detail names."""
        value = self.reply.json["error"]
        details = value.get("data") or value.get("details") or []
        return [
            violation["field"]
            for detail in details
            if detail["@type"] == BAD_REQUEST
            for violation in detail["fieldViolations"]
        ]


@dataclass
class Caller(abc.ABC):
    """Someone with a key, speaking one binding. Methods are named as in JSON-RPC; parameters are the request objects."""

    endpoint: Endpoint
    key: str
    extra: dict[str, str] = field(default_factory=dict)
    name: ClassVar[str] = ""
    """The binding."""

    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        return {"X-API-Key": self.key, "A2A-Version": "1.0", **self.extra}

    @abc.abstractmethod
    def exchange(self, method: str, params: Json | None = None) -> Reply:
        """Send a call and return the bare answer."""

    @abc.abstractmethod
    def stream(self, method: str, params: Json) -> Stream:
        """Open a stream; raise `RefusedError` when it is refused before it starts."""

    @abc.abstractmethod
    def read(self, reply: Reply) -> Any:
        """Return an answer's result; raise `RefusedError` when it is an error, whose shape is checked."""

    def call(self, method: str, params: Json | None = None) -> Any:
        """Send a call and return its result."""
        return self.read(self.exchange(method, params))

    def outcome(self, reply: Reply) -> Any:
        """Return an answer's result, or the refusal that it is."""
        try:
            return self.read(reply)
        except RefusedError as refused:
            return refused

    def refused(self, method: str, params: Json | None = None) -> RefusedError:
        """Send a call that must be refused and return the refusal."""
        outcome = self.outcome(self.exchange(method, params))
        assert isinstance(outcome, RefusedError), f"{method} was not refused: {outcome}"
        return outcome

    def send(self, text: str, **options: Any) -> Json:
        """Send a message and return the task that answers it."""
        result = self.call("SendMessage", sending(text, **options))
        assert set(result) == {"task"}, result
        task: Json = result["task"]
        return task

    def get(self, task_id: str, **params: Any) -> Json:
        """Return a task."""
        task: Json = self.call("GetTask", {"id": task_id, **params})
        return task

    def wait(self, task_id: str, *states: str, seconds: float = 10.0) -> Json:
        """Poll a task until it is in one of the states."""
        deadline = time.monotonic() + seconds
        while state_of(task := self.get(task_id)) not in states:
            assert time.monotonic() < deadline, f"still {state_of(task)}, not {states}, after {seconds} s"
            time.sleep(0.02)
        return task

    def _open(self, method: str, path: str, body: bytes | None, headers: dict[str, str], *, rpc: bool) -> Stream:
        connection = http.client.HTTPConnection(self.endpoint.host, self.endpoint.port, timeout=self.endpoint.timeout)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            if (response.headers.get("Content-Type") or "").startswith("text/event-stream"):
                assert response.status == http.HTTPStatus.OK
                return Stream(connection, response, rpc=rpc)
            reply = Reply(response.status, response.headers, response.read())
        except BaseException:
            connection.close()
            raise
        connection.close()
        raise AssertionError(f"a stream was answered with {self.read(reply)}")


class JsonRpcCaller(Caller):
    """The JSON-RPC binding."""

    name: ClassVar[str] = "jsonrpc"

    def exchange(self, method: str, params: Json | None = None) -> Reply:
        """Post one JSON-RPC request."""
        return self.post(envelope(method, params))

    def post(self, body: bytes | Json | list[Any], path: str = "/a2a", **headers: str) -> Reply:
        """Post any body at all."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        extra = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.endpoint.request(
            "POST", path, data, {"Content-Type": "application/json", **self.headers(), **extra}
        )

    def stream(self, method: str, params: Json) -> Stream:
        """Post a streaming call."""
        body = json.dumps(envelope(method, params, id="stream-1")).encode()
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream", **self.headers()}
        return self._open("POST", "/a2a", body, headers, rpc=True)

    def read(self, reply: Reply) -> Any:
        """Check the envelope and return the result."""
        assert reply.media_type == "application/json", (reply.status, reply.body)
        value = reply.json
        if reply.status == http.HTTPStatus.UNAUTHORIZED:
            raise RefusedError(reply, "UNAUTHENTICATED", value["error"]["message"])
        assert value["jsonrpc"] == "2.0"
        assert "id" in value
        if "result" in value:
            assert "error" not in value
            assert reply.status == http.HTTPStatus.OK
            return value["result"]
        error = value["error"]
        kind = next((name for name, (code, _) in KINDS.items() if code == error["code"]), str(error["code"]))
        _check_details(kind, error.get("data"))
        raise RefusedError(reply, kind, error["message"])


class RestCaller(Caller):
    """The HTTP+JSON binding."""

    name: ClassVar[str] = "rest"
    base: ClassVar[str] = "/a2a/v1"

    def exchange(self, method: str, params: Json | None = None) -> Reply:
        """Send the request that the method maps to."""
        verb, path, body = rest_request(method, dict(params or {}))
        return self.http(verb, path, body)

    def http(self, verb: str, path: str, body: bytes | Json | None = None, **headers: str) -> Reply:
        """Send any request beneath the binding's base path."""
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        content = {} if data is None else {"Content-Type": "application/a2a+json"}
        extra = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.endpoint.request(verb, self.base + path, data, {**content, **self.headers(), **extra})

    def stream(self, method: str, params: Json) -> Stream:
        """Send a streaming call."""
        verb, path, body = rest_request(method, dict(params))
        headers = {"Content-Type": "application/a2a+json", "Accept": "text/event-stream", **self.headers()}
        data = None if body is None else json.dumps(body).encode()
        return self._open(verb, self.base + path, data, headers, rpc=False)

    def read(self, reply: Reply) -> Any:
        """Check the status and return the body."""
        if reply.status < http.HTTPStatus.BAD_REQUEST:
            assert reply.media_type in {"application/a2a+json", "application/json"}, (reply.status, reply.body)
            return reply.json if reply.body else None
        assert reply.media_type == "application/json", (reply.status, reply.body)
        error = reply.json["error"]
        assert error["code"] == reply.status
        if reply.status == http.HTTPStatus.UNAUTHORIZED:
            raise RefusedError(reply, "UNAUTHENTICATED", error["message"])
        details = error.get("details") or []
        reason = next((detail["reason"] for detail in details if detail["@type"] == ERROR_INFO), "")
        kind = reason if reason in OWN_REASONS else {400: "INVALID_PARAMS", 404: "METHOD_NOT_FOUND"}.get(reply.status)
        kind = kind or str(reply.status)
        if kind in KINDS:
            assert reply.status == KINDS[kind][1], (kind, reply.status)
        _check_details(kind, details)
        raise RefusedError(reply, kind, error["message"])


def _check_details(kind: str, details: Any) -> None:
    """Check that a refusal's details are typed objects, and that A2A's own refusals say their name (§9.5, §11.6)."""
    assert isinstance(details, list)
    assert all(isinstance(detail, dict) and detail.get("@type") for detail in details), details
    if kind in OWN_REASONS:
        info = next(detail for detail in details if detail["@type"] == ERROR_INFO)
        assert info["reason"] == kind
        assert info["domain"] == "a2a-protocol.org"
