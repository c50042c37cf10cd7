"""A session's event bus (`volcanic.extension.EventBus`)."""

from __future__ import annotations

import structlog

from volcanic.extension import JsonObject, Listener

_log = structlog.get_logger(__name__)


class SessionBus:
    """Listeners by channel, awaited one after another in order of registration."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[Listener]] = {}

    def on(self, channel: str, listener: Listener) -> None:
        """Have `listener` awaited for each later event of `channel`."""
        self._listeners.setdefault(channel, []).append(listener)

    async def emit(self, channel: str, data: JsonObject) -> None:
        """Await every listener of `channel`; one that raises is logged and the others still run."""
        for listener in tuple(self._listeners.get(channel, ())):
            try:
                await listener(data)
            except Exception:  # noqa: BLE001 - a listener's bug must not end the run
                _log.exception("event listener failed", channel=channel)
