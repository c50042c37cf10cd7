"""Reading event streams as a caller does: server-sent events, unwrapped to the StreamResponse that each one is."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from tests.service.a2a import Json, state_of, text_of


@dataclass
class Event:
    """One event of a stream: its SSE id, what it says, and when it came (monotonic seconds)."""

    id: int | None
    value: Json
    at: float

    @property
    def kind(self) -> str:
        """The one member of a StreamResponse that is set."""
        assert len(self.value) == 1, f"a StreamResponse has exactly one member: {self.value}"
        return next(iter(self.value))

    @property
    def state(self) -> str | None:
        """The task's state, when the event carries one."""
        if self.kind == "task":
            return state_of(self.value["task"])
        if self.kind == "statusUpdate":
            return state_of(self.value["statusUpdate"])
        return None


class Stream:
    """An open event stream. Iterate it, or take events one at a time; leaving the `with` block closes the connection."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse, *, rpc: bool):
        self._connection = connection
        self._response = response
        self._rpc = rpc
        self.comments = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Event]:
        while (event := self.next()) is not None:
            yield event

    @property
    def headers(self) -> http.client.HTTPMessage:
        """The headers of the answer that opened it."""
        return self._response.headers

    def next(self) -> Event | None:
        """Return the next event, or None at the end of the stream."""
        data: list[str] = []
        identity: int | None = None
        while line := self._response.readline():
            text = line.decode().rstrip("\r\n")
            name, _, value = text.partition(":")
            value = value.removeprefix(" ")
            if text.startswith(":"):
                self.comments += 1
            elif name == "data":
                data.append(value)
            elif name == "id":
                identity = int(value)
            elif not text and data:
                return Event(identity, self._unwrap(json.loads("\n".join(data))), time.monotonic())
        return None

    def until(self, state: str) -> list[Event]:
        """Return the events up to and including the first that shows the state."""
        seen = []
        for event in self:
            seen.append(event)
            if event.state == state:
                return seen
        raise AssertionError(f"the stream ended before {state}: {[event.value for event in seen]}")

    def close(self) -> None:
        """Drop the connection."""
        self._response.close()
        self._connection.close()

    def _unwrap(self, value: Json) -> Json:
        if not self._rpc:
            return value
        assert value["jsonrpc"] == "2.0"
        assert value["id"] == "stream-1"
        assert "error" not in value, value
        result: Json = value["result"]
        return result


def assemble(events: list[Event]) -> dict[str, str]:
    """Return the text of each artifact that a stream gave, put together as the append flags say."""
    texts: dict[str, str] = {}
    for event in events:
        if event.kind == "task":
            texts = {each["artifactId"]: text_of(each["parts"]) for each in event.value["task"].get("artifacts", [])}
        elif event.kind == "artifactUpdate":
            update = event.value["artifactUpdate"]
            artifact = update["artifact"]
            before = texts.get(artifact["artifactId"], "") if update.get("append") else ""
            texts[artifact["artifactId"]] = before + text_of(artifact["parts"])
    return texts
