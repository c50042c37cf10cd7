"""What the server needs to know, gathered by the composition root from the product's settings."""

from __future__ import annotations

import enum

import attrs

DEFAULT_INPUT_MODES = (
    "text/*",
    "image/*",
    "audio/*",
    "video/*",
    "application/octet-stream",
    "application/json",
    "application/pdf",
    "application/xml",
    "application/yaml",
    "application/zip",
    "application/gzip",
    "application/x-tar",
    "application/msword",
    "application/vnd.ms-excel",
    "application/vnd.ms-powerpoint",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "application/vnd.oasis.opendocument.text",
    "application/vnd.oasis.opendocument.spreadsheet",
    "application/vnd.oasis.opendocument.presentation",
)


class CancelOnDisconnect(enum.StrEnum):
    """Which runs end when the client that asked for them drops its connection (`A2A__CancelOnDisconnect`)."""

    BLOCKING = "blocking"
    ALWAYS = "always"
    NEVER = "never"


@attrs.frozen
class ListenerSettings:
    """Bounds on connections; times in seconds.

    `certfile` and `keyfile` turn TLS on (HTTP/2 by ALPN); `h2c` lets clients speak HTTP/2 without TLS by prior
    knowledge.
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
    `booted` is when the service started (unix seconds): the public card's Last-Modified.
    """

    public_url: str = ""
    card_name: str = "Volcanic assistant"
    card_description: str = "A personal assistant that other agents can talk to."
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
