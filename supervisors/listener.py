"""Listening sockets, made by root and inherited by each incarnation of a worker: a killed worker refuses nobody.

Every socket is non-blocking and close-on-exec, and is its caller's to close. What is set on a listening TCP socket
holds for the connections it accepts.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from pathlib import Path

BACKLOG = 1024
"""Connections the kernel holds for a listener that is busy, or is being replaced."""
UNACKNOWLEDGED_MS = 20_000
"""How long a peer may leave sent data unacknowledged until its connection is dropped (milliseconds; Linux)."""
KEEPALIVE = (60, 15, 4)
"""Seconds of silence before the first probe, seconds between probes, unanswered probes until the peer is gone."""


class ListenError(Exception):
    """The address cannot be listened on; the text names it and the reason, on one line."""


def open_tcp_listeners(
    host: str, port: int, backlog: int = BACKLOG, unacknowledged_ms: int = UNACKNOWLEDGED_MS
) -> list[socket.socket]:
    """Listen on every address of `host`; port 0 picks one free port for all of them. Resolves names, so it may block.

    Raises:
        ListenError: nothing is left open then.
    """
    where = f"{host}:{port}" if ":" not in host else f"[{host}]:{port}"
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError, OverflowError) as error:
        raise ListenError(f"cannot listen on {where}: {error}") from None
    listeners: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            picked = listeners[0].getsockname()[1] if listeners else port
            listeners.append(_tcp_listener(family, (address[0], picked, *address[2:]), backlog, unacknowledged_ms))
    except (OSError, OverflowError) as error:
        for listener in listeners:
            listener.close()
        raise ListenError(f"cannot listen on {where}: {_text(error)}") from None
    return listeners


def open_unix_listener(path: str, mode: int = 0o600, backlog: int = BACKLOG) -> socket.socket:
    """Listen on a Unix socket at `path`, with file mode `mode`. A socket file that nobody listens on is replaced.

    Removing the file is the caller's, after closing.

    Raises:
        ListenError: the path is too long, something that is no dead socket is there, or the folder forbids it.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_dead(path)
        umask = os.umask(0o777 & ~mode)
        try:
            listener.bind(path)
        finally:
            os.umask(umask)
        listener.listen(backlog)
    except OSError as error:
        listener.close()
        raise ListenError(f"cannot listen on {path}: {_text(error)}") from None
    listener.setblocking(False)
    return listener


def _tcp_listener(family: int, address: tuple[object, ...], backlog: int, unacknowledged_ms: int) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        idle, interval, probes = KEEPALIVE
        for name, value in (
            ("TCP_KEEPIDLE", idle),
            ("TCP_KEEPINTVL", interval),
            ("TCP_KEEPCNT", probes),
            ("TCP_USER_TIMEOUT", unacknowledged_ms),
        ):
            if (option := getattr(socket, name, None)) is not None:
                listener.setsockopt(socket.IPPROTO_TCP, option, value)
        listener.bind(address)
        listener.listen(backlog)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def _remove_dead(path: str) -> None:
    """Unlink a socket file whose listener is gone; anything else at `path` is left, for `bind` to complain of."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        if probe.connect_ex(path) == errno.ECONNREFUSED:
            with contextlib.suppress(FileNotFoundError):
                Path(path).unlink()


def _text(error: Exception) -> str:
    return os.strerror(error.errno).lower() if isinstance(error, OSError) and error.errno else str(error)
