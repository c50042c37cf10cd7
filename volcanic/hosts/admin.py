"""The admin socket: HTTP over a Unix socket in the state folder, for the service's own user alone (design: "Admin")."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import trio

from supervisors.process_child import ProcessChild, ProcessState, WorkerUnavailableError
from supervisors.tree import TreeNode
from volcanic.hosts.tree import TREE
from volcanic.server.listener import serve
from volcanic.server.settings import ListenerSettings

ASK_SECONDS = 1.0
"""How long a worker may take to describe what is inside it; one that does not is shown without."""

_JSON = b"application/json"
_CREDENTIALS = struct.Struct("3i")
"""The kernel's `ucred`: pid, uid, gid."""


class AdminApp:
    """The admin socket's ASGI application: `GET /admin/tree`, `/healthz`, `/readyz`."""

    def __init__(self, children: Sequence[ProcessChild]) -> None:
        self.describe: Callable[[], TreeNode]
        """Root's own view of the tree; set once the tree exists, of which this application is a part."""
        self._children = {child.name: child for child in children}

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:  # noqa: ARG002 - ASGI's form
        """Serve one request (ASGI)."""
        status, body = await self._answer(scope["method"], scope["path"])
        headers = [(b"content-type", _JSON), (b"content-length", b"%d" % len(body)), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, method: str, path: str) -> tuple[int, bytes]:
        if method not in {"GET", "HEAD"}:
            return 405, b'{"error":"only GET"}'
        if path == "/admin/tree":
            return 200, msgspec.json.encode(await self.tree())
        if path == "/healthz":
            return 200, b'{"status":"up"}'
        if path == "/readyz":
            up = all(child.state is ProcessState.READY for child in self._children.values())
            return (200, b'{"status":"ready"}') if up else (503, b'{"status":"starting"}')
        return 404, b'{"error":"not found"}'

    async def tree(self) -> TreeNode:
        """Return the whole tree: root's own view, and within each process what it says of itself."""
        tree = self.describe()
        tree.pid = os.getpid()
        async with trio.open_nursery() as nursery:
            for node in tree.children:
                if (child := self._children.get(node.id)) is not None and node.pid is not None:
                    nursery.start_soon(_fill, node, child)
        return tree


async def _fill(node: TreeNode, child: ProcessChild) -> None:
    try:
        inside = msgspec.json.decode(await child.ask(TREE, ASK_SECONDS), type=TreeNode)
    except WorkerUnavailableError:
        return
    node.children = inside.children


async def serve_admin(  # noqa: ASYNC128 - passed on
    listening: socket.socket, app: AdminApp, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve the admin socket until cancelled; the listening socket stays root's."""
    settings = ListenerSettings(connections=64)
    await serve([listening.dup()], app, settings, trio.Event(), admit=is_own_user, task_status=task_status)


def is_own_user(sock: socket.socket) -> bool:
    """Tell whether the peer of a Unix socket runs as this process's user, or as root.

    Where the system cannot tell, the folder's mode has to do.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    _, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return uid in {os.getuid(), 0}
