"""What the server needs to know, taken from the product's settings by the composition root."""

from __future__ import annotations

import attrs

from volcanic.config import DEFAULT_INPUT_MODES, CancelOnDisconnect, CardSettings

__all__ = ["CancelOnDisconnect", "ListenerSettings", "ServerSettings"]


@attrs.frozen
class ListenerSettings:
    """Bounds on connections; times in seconds.

    `certfile` and `keyfile` turn TLS on (HTTP/2 by ALPN); `h2c` lets clients speak HTTP/2 without TLS by prior
    knowledge. `header_seconds` bounds the TLS handshake, the wait for a first request and each request head;
    `keep_alive_seconds` the wait for the next request; `send_seconds` a write that makes no progress; `linger_seconds`
    how long the rest of an unwanted request is read; `drain_seconds` how long a stop waits for what is running.
    """

    connections: int = 4096
    header_seconds: float = 5.0
    keep_alive_seconds: float = 65.0
    send_seconds: float = 10.0
    linger_seconds: float = 1.0
    drain_seconds: float = 10.0
    certfile: str = ""
    keyfile: str = ""
    h2c: bool = False


@attrs.frozen
class ServerSettings:
    """What shapes the public interface; times in seconds, sizes in bytes.

    `public_url` is the external base URL without a trailing slash, or empty to build it from each request.
    `send_seconds` bounds a SendMessage that waits for its task, `call_seconds` every other call. `booted` is when the
    service started (unix seconds): the public card's Last-Modified.
    """

    public_url: str = ""
    card_name: str = CardSettings().name
    card_description: str = CardSettings().description
    input_modes: tuple[str, ...] = DEFAULT_INPUT_MODES
    cancel_on_disconnect: CancelOnDisconnect = CancelOnDisconnect.BLOCKING
    body_bytes: int = 32 * 1024 * 1024
    body_seconds: float = 30.0
    send_seconds: float = 24 * 3600.0
    call_seconds: float = 30.0
    comment_seconds: float = 15.0
    card_max_age: int = 300
    booted: float = 0.0
    listener: ListenerSettings = attrs.Factory(ListenerSettings)
