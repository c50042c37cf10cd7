"""An HTTP/2 client that can misbehave: h2's engine over a trio stream, without its checks of what it sends."""

from __future__ import annotations

from collections import defaultdict

import h2.config
import h2.connection
import h2.events
import trio


class H2Client:
    def __init__(self, stream, *, acknowledge: bool = True) -> None:
        config = h2.config.H2Configuration(
            client_side=True, header_encoding="utf-8", validate_outbound_headers=False, normalize_outbound_headers=False
        )
        self.connection = h2.connection.H2Connection(config)
        self.stream = stream
        self.acknowledge = acknowledge
        self.headers: dict[int, dict[str, str]] = {}
        self.data: dict[int, bytearray] = defaultdict(bytearray)
        self.ended: set[int] = set()
        self.resets: dict[int, int] = {}
        self.goaway: int | None = None
        self.closed = False
        self.pongs = 0

    async def start(self) -> H2Client:
        self.connection.initiate_connection()
        await self.flush()
        return self

    async def flush(self) -> None:
        data = self.connection.data_to_send()
        if data:
            await self.stream.send_all(data)

    async def request(self, method="GET", path="/healthz", body=None, *, headers=(), end=True) -> int:
        stream_id = self.connection.get_next_available_stream_id()
        head = [(":method", method), (":scheme", "http"), (":authority", "localhost"), (":path", path), *headers]
        self.connection.send_headers(stream_id, head, end_stream=end and body is None)
        await self.flush()
        if body is not None:
            await self.send(stream_id, body, end=end)
        return stream_id

    async def send(self, stream_id: int, body: bytes, *, end: bool = True) -> None:
        while body:
            room = min(self.connection.local_flow_control_window(stream_id), 16_384)
            if room <= 0:
                await self.step()
                continue
            self.connection.send_data(stream_id, body[:room])
            body = body[room:]
            await self.flush()
        if end:
            self.connection.end_stream(stream_id)
            await self.flush()

    async def step(self) -> None:
        """Take what has arrived next."""
        data = await self.stream.receive_some(65536)
        if not data:
            self.closed = True
            raise EOFError
        for event in self.connection.receive_data(data):
            if isinstance(event, h2.events.ResponseReceived):
                self.headers[event.stream_id] = {str(name): str(value) for name, value in event.headers}
            elif isinstance(event, h2.events.DataReceived):
                self.data[event.stream_id] += event.data
                if self.acknowledge:
                    self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                self.ended.add(event.stream_id)
            elif isinstance(event, h2.events.StreamReset):
                self.resets[event.stream_id] = event.error_code
            elif isinstance(event, h2.events.PingAckReceived):
                self.pongs += 1
            elif isinstance(event, h2.events.ConnectionTerminated):
                self.goaway = event.error_code
        await self.flush()

    async def until(self, condition, seconds: float = 10) -> None:
        with trio.fail_after(seconds):
            while not condition():
                await self.step()

    async def answer(self, stream_id: int) -> tuple[str, bytes]:
        """Return status and body of a response, once it is complete."""
        await self.until(lambda: stream_id in self.ended or stream_id in self.resets)
        return self.headers[stream_id][":status"], bytes(self.data[stream_id])
