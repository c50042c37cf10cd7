"""The edge role: public HTTP in, Owner API out. It holds no state that anybody would miss."""

from __future__ import annotations

import os
import socket

import msgspec
import trio

from actors.owner import SlotOwners
from actors.slot_link import SlotLink
from supervisors.worker_process import WorkerContext
from volcanic.config import Settings
from volcanic.hosts.cards import WorkspaceCards
from volcanic.hosts.logs import configure_logs
from volcanic.hosts.prepare import Prepared
from volcanic.hosts.tree import DRAIN, TREE, Place, edge_supervisor, slot_name
from volcanic.server.app import build_app
from volcanic.server.listener import serve
from volcanic.server.settings import CancelOnDisconnect, ListenerSettings, ServerSettings
from volcanic.storage.callers import CallerBook
from volcanic.storage.tasks import TaskFiles

MARGIN_SECONDS = 2.0
"""What an edge's patience with its clients has beyond the slots' patience with their runs."""

GOODBYE_SECONDS = 0.5
"""How long the last bytes to clients may take once every slot has stopped; who does not read by then is dropped."""


async def serve_edge(prepared: Prepared, booted: float, context: WorkerContext) -> None:
    """Be an edge until told to stop: then accept nobody new, let answers out, end streams."""
    configure_logs(context.name)
    place = msgspec.msgpack.decode(context.payload, type=Place)
    await _Edge(prepared, booted, place, context).run()


class _Edge:
    """The composition of one edge."""

    def __init__(self, prepared: Prepared, booted: float, place: Place, context: WorkerContext) -> None:
        self._context = context
        self._settings = server_settings(prepared.settings, booted)
        self._draining = trio.Event()
        self._closed = trio.Event()
        self._patience = prepared.settings.service.shutdown_seconds
        names = [slot_name(number) for number in range(place.slots)]
        links = self._links = [SlotLink(name, prepared.state.slot_socket(name)) for name in names]
        files = {layout.root: TaskFiles(layout) for layout in prepared.layouts}
        self._app = build_app(
            SlotOwners(links, files), CallerBook(prepared.layouts), WorkspaceCards(prepared.layouts), self._settings
        )
        self._supervisor = edge_supervisor(
            {f"link-{link.slot}": link.run for link in links},
            self._serve_http,
        )

    async def run(self) -> None:
        """Run the edge's tree until it is told to stop."""
        self._context.answer = self._answer
        async with trio.open_nursery() as nursery:
            await nursery.start(self._supervisor.run)
            self._context.ready()
            await self._context.stopping.wait()
            # Without the word to drain before, it is this edge alone that goes: its slots run on, and its clients may
            # finish. Streams that are left then are cut off, so that their clients come back through another edge.
            retiring = not self._draining.is_set()
            self._draining.set()
            if not retiring:
                self._app.drain()
            with trio.move_on_after(self._patience if retiring else GOODBYE_SECONDS):
                await self._closed.wait()
            for link in self._links:
                link.stopping = True
            nursery.cancel_scope.cancel()

    async def _answer(self, question: bytes) -> bytes:
        await trio.lowlevel.checkpoint()
        if question == DRAIN:
            # Streams stay: their runs are being settled, and their ends still have to go out.
            self._draining.set()
            for link in self._links:
                link.draining = True
            for descriptor in self._context.descriptors:
                os.close(descriptor)
            self._context.descriptors = []
            return b""
        if question == TREE:
            return msgspec.json.encode(self._supervisor.describe())
        raise ValueError(question)

    async def _serve_http(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:  # noqa: ASYNC128 - passed on
        # Copies, because the listener closes what it serves on, and a restarted one needs them again.
        listening = [socket.socket(fileno=os.dup(descriptor)) for descriptor in self._context.descriptors]
        await serve(listening, self._app, self._settings.listener, self._draining, task_status=task_status)
        self._closed.set()


def server_settings(settings: Settings, booted: float) -> ServerSettings:
    """Return what the server needs of the settings."""
    a2a, service = settings.a2a, settings.service
    return ServerSettings(
        public_url=a2a.public_url,
        card_name=a2a.card.name,
        card_description=a2a.card.description,
        input_modes=a2a.input_modes,
        cancel_on_disconnect=CancelOnDisconnect(a2a.cancel_on_disconnect.value),
        body_bytes=a2a.limits.body_bytes or 2**62,
        body_seconds=a2a.limits.body_seconds or float("inf"),
        booted=booted,
        listener=ListenerSettings(
            connections=a2a.limits.connections or 2**62,
            drain_seconds=service.shutdown_seconds + MARGIN_SECONDS,
            certfile=service.certfile,
            keyfile=service.keyfile,
            h2c=service.h2c,
        ),
    )
