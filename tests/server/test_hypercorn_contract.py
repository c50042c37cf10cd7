"""The internal names of hypercorn, h11 and h2 that the server stands on. A new release that moves one fails here first."""

import inspect
from importlib.metadata import version
from typing import Any

import h2.connection
import h11
from hypercorn.config import Config
from hypercorn.protocol import ProtocolWrapper, events
from hypercorn.protocol.h2 import BUFFER_HIGH_WATER, H2Protocol, StreamBuffer
from hypercorn.protocol.h11 import STREAM_ID, H2ProtocolAssumedError, H11Protocol
from hypercorn.protocol.http_stream import ASGIHTTPState, HTTPStream
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext

PROTOCOL = ["self", "app", "config", "context", "task_group", "connection_state", "ssl", "client", "server", "send"]


def names(function) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_the_version_is_the_pinned_one():
    assert version("hypercorn") == "0.18.0"


def test_what_is_constructed_and_overridden_has_these_parameters():
    assert names(TCPServer.__init__) == ["self", "app", "config", "context", "state", "stream"]
    assert names(H11Protocol.__init__) == names(H2Protocol.__init__) == PROTOCOL
    assert names(HTTPStream.__init__) == [
        "self",
        "app",
        "config",
        "context",
        "task_group",
        "ssl",
        "client",
        "server",
        "send",
        "stream_id",
    ]
    assert (
        names(TCPServer.protocol_send)
        == names(ProtocolWrapper.handle)
        == names(H11Protocol.handle)
        == ["self", "event"]
    )
    for owner, method in [
        (TCPServer, "run"),
        (TCPServer, "_read_data"),
        (H11Protocol, "_handle_events"),
        (H11Protocol, "_close_stream"),
        (H11Protocol, "_maybe_recycle"),
        (H11Protocol, "_send_h11_event"),
        (H11Protocol, "stream_send"),
        (H2Protocol, "_handle_events"),
        (H2Protocol, "_close_stream"),
        (H2Protocol, "_flush"),
        (H2Protocol, "_window_updated"),
        (H2Protocol, "stream_send"),
        (H2Protocol, "send_task"),
        (StreamBuffer, "push"),
        (StreamBuffer, "pop"),
        (StreamBuffer, "drain"),
        (HTTPStream, "handle"),
        (HTTPStream, "app_send"),
        (TaskGroup, "spawn"),
    ]:
        assert callable(getattr(owner, method)), method


def test_the_calls_made_inside_are_the_ones_overridden():
    assert "await self._handle_events()" in inspect.getsource(H11Protocol.handle)
    assert "await self._close_stream()" in inspect.getsource(H11Protocol._maybe_recycle)
    assert "self.context.terminated.is_set()" in inspect.getsource(H11Protocol._maybe_recycle)
    assert "await self._handle_events(events)" in inspect.getsource(H2Protocol.handle)
    assert "self.stream_buffers[stream_id].pop(" in inspect.getsource(H2Protocol._send_data)
    assert "self._nursery.start_soon" in inspect.getsource(TaskGroup.spawn)


def test_states_events_and_attributes():
    context = WorkerContext(None)
    assert context.terminated.is_set() is False
    absent: Any = None
    arguments = (absent, Config(), context, absent, absent, False, None, None, absent)
    http1 = H11Protocol(*arguments)
    assert {"connection", "can_read", "stream", "connection_state"} <= set(vars(http1))
    assert isinstance(http1.connection, h11.Connection)
    http2 = H2Protocol(*arguments)
    assert {"connection", "streams", "stream_buffers", "priority", "has_data", "closed"} <= set(vars(http2))
    assert isinstance(http2.connection, h2.connection.H2Connection)
    assert {"_complete", "_is_empty", "_paused", "buffer"} <= set(vars(StreamBuffer(context.event_class)))
    assert {state.name for state in ASGIHTTPState} == {"REQUEST", "RESPONSE", "TRAILERS", "CLOSED"}
    assert (STREAM_ID, BUFFER_HIGH_WATER) == (1, 32_768)
    assert H2ProtocolAssumedError(b"x").data == b"x"
    assert list(events.Request.__dataclass_fields__) == [
        "stream_id",
        "headers",
        "http_version",
        "method",
        "raw_path",
        "state",
    ]


def test_the_stock_faults_worked_around_are_still_there():
    """When one of these fails, upstream has mended it: see whether the workaround may go."""
    assert "cancel_scope.shield = True" in inspect.getsource(TCPServer.protocol_send)
    assert "await self.streams[event.stream_id].handle(" in inspect.getsource(H2Protocol._handle_events)
    assert "await self._paused.wait()\n            await self._paused.clear()" in inspect.getsource(StreamBuffer.push)
    assert "self.priority.insert_stream" in inspect.getsource(H2Protocol._priority_updated)
    assert 'decode("ascii")' in inspect.getsource(HTTPStream.handle)
