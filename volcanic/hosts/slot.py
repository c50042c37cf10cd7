"""The agents role: one slot, the owner of its shards' contexts, runs and task files (design: "Ownership")."""

from __future__ import annotations

import os
import socket

import msgspec
import trio

from actors.asking import Ground, OwnerSettings, Workspace
from actors.contexts import Contexts
from actors.messages import Hello
from actors.owner_server import serve_owner
from actors.registry import sweep
from supervisors.dynamic import DynamicSupervisor
from supervisors.worker_process import WorkerContext
from volcanic.clock import SYSTEM
from volcanic.config import A2ASettings
from volcanic.hosts.folder import FolderAssistant
from volcanic.hosts.logs import configure_logs, log_child
from volcanic.hosts.prepare import Prepared
from volcanic.hosts.tree import DRAIN, TREE, Place, slot_supervisor
from volcanic.protocol.ids import shard_of_task_id
from volcanic.storage.disk import Disk, open_disk, sweep_temps
from volcanic.storage.live import LiveLog
from volcanic.storage.tasks import RunStamp, TaskFiles

LEFTOVER_SECONDS = 60.0
"""A temporary file this old is nobody's any more."""


async def serve_slot(prepared: Prepared, context: WorkerContext) -> None:
    """Be a slot until told to stop: then take no new work, let runs finish, and settle what is left."""
    configure_logs(context.name)
    place = msgspec.msgpack.decode(context.payload, type=Place)
    async with open_disk(name=context.name) as disk:
        await _Slot(prepared, place, context, disk).run()


class _Slot:
    """The composition of one slot."""

    def __init__(self, prepared: Prepared, place: Place, context: WorkerContext, disk: Disk) -> None:
        self._prepared = prepared
        self._place = place
        self._context = context
        self._draining = trio.Event()
        stamp = RunStamp(boot=place.boot, slot=context.name, incarnation=context.incarnation)
        timezone = prepared.settings.service.timezone
        self._ground = Ground(
            stamp=stamp,
            disk=disk,
            live=LiveLog(prepared.state.live(context.name)),
            clock=SYSTEM,
            settings=owner_settings(prepared.settings.a2a),
            workspaces={
                layout.root: Workspace(
                    path=layout.root,
                    tasks=TaskFiles(layout),
                    assistant=FolderAssistant(layout, prepared.model, disk, SYSTEM, timezone),
                )
                for layout in prepared.layouts
            },
        )
        self._sessions = DynamicSupervisor("contexts", on_event=log_child)
        self._contexts = Contexts(self._ground, self._sessions.start_child, self._owns)
        self._supervisor = slot_supervisor(
            live=self._settle_predecessor,
            contexts=self._sessions,
            sweeper=self._sweep,
            owner=self._serve_owner,
        )

    async def run(self) -> None:
        """Run the slot's tree until it is told to stop, then drain."""
        self._context.answer = self._answer
        async with trio.open_nursery() as nursery:
            await nursery.start(self._supervisor.run)
            nursery.start_soon(self._drain_when_stopped)
            self._context.ready()
            await self._draining.wait()
            self._contexts.close()
            # Settled before anything of the tree is stopped: the ends still go out over the Owner API.
            await self._contexts.drain(self._prepared.settings.service.shutdown_seconds)
            await self._context.stopping.wait()
            nursery.cancel_scope.cancel()

    async def _drain_when_stopped(self) -> None:
        await self._context.stopping.wait()
        self._draining.set()

    async def _answer(self, question: bytes) -> bytes:
        await trio.lowlevel.checkpoint()
        if question == DRAIN:
            self._draining.set()
            return b""
        if question == TREE:
            tree = self._supervisor.describe()
            for node in tree.children:
                if node.id == self._sessions.id:
                    node.children = self._contexts.describe()
            return msgspec.json.encode(tree)
        raise ValueError(question)

    def _owns(self, task_id: str) -> bool:
        shard = shard_of_task_id(task_id)
        return shard is not None and shard % self._place.slots == self._place.slot

    async def _settle_predecessor(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        await self._contexts.settle_predecessor()
        task_status.started()
        await trio.to_thread.run_sync(self._sweep_leftovers)
        await trio.sleep_forever()

    def _sweep_leftovers(self) -> None:
        """Remove the temporary files of this slot's predecessors, and old ones of anybody's."""
        folders = [self._prepared.state.root, self._prepared.state.live_folder]
        for layout in self._prepared.layouts:
            folders += [layout.a2a, layout.tasks]
        for folder in folders:
            sweep_temps(folder, 0.0, self._context.name, self._ground.disk.token)
            if self._place.slot == 0:
                sweep_temps(folder, LEFTOVER_SECONDS)

    async def _sweep(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:  # noqa: ASYNC128 - passed on
        await sweep(self._contexts.sessions, self._ground.settings.idle_seconds, task_status=task_status)

    async def _serve_owner(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:  # noqa: ASYNC128 - passed on
        # A copy, because what is served on is closed, and a restarted owner needs it again.
        listening = socket.socket(fileno=os.dup(self._context.descriptors[0]))
        listening.setblocking(False)
        hello = Hello(slot=self._context.name, boot=self._place.boot, incarnation=self._context.incarnation)
        await serve_owner(
            trio.SocketListener(trio.socket.from_stdlib_socket(listening)),
            self._contexts,
            hello,
            self._ground.settings.stream_buffer_bytes,
            self._context.label,
            task_status=task_status,
        )


def owner_settings(a2a: A2ASettings) -> OwnerSettings:
    """Return what the domain actors need of the settings."""
    return OwnerSettings(
        max_hops=a2a.max_hops,
        idle_seconds=a2a.session_idle_timeout,
        stream_buffer_bytes=a2a.limits.stream_buffer_bytes or 2**62,
    )
