"""The root process: signals, listening sockets, child processes, the admin socket. No agent code, no public HTTP."""

from __future__ import annotations

import contextlib
import secrets
import socket
import sys
from collections.abc import Sequence
from functools import partial

import msgspec
import structlog
import trio

from supervisors.exits import Escalated, StartFailed
from supervisors.fork_client import ForkClient
from supervisors.fork_protocol import RootBoot
from supervisors.forked_child import exit_now
from supervisors.heartbeat import HeartbeatMonitor
from supervisors.listener import ListenError, open_tcp_listeners, open_unix_listener
from supervisors.process_child import KILL_SECONDS, ProcessChild, WorkerUnavailableError
from supervisors.signals import rolling_restart, run_until_signal
from supervisors.supervisor import Supervisor
from volcanic.hosts.admin import AdminApp, serve_admin
from volcanic.hosts.edge import MARGIN_SECONDS
from volcanic.hosts.logs import configure_logs
from volcanic.hosts.prepare import Prepared
from volcanic.hosts.tree import DRAIN, Place, root_supervisor, shape_for, slot_name

USAGE = 2
"""Exit status of a start that says no."""
GAVE_UP = 1
"""Exit status of a service whose processes cannot start."""

ANSWER_SECONDS = 1.0
"""How long a worker may take to say that it takes nothing new."""

log = structlog.get_logger("volcanic")


def run_root(prepared: Prepared, boot: RootBoot) -> int:
    """Be the root process; return the service's exit status."""
    configure_logs("root")
    try:
        return trio.run(_Root(prepared, boot).run)
    except ListenError as error:
        print(f"volcanic: {error}", file=sys.stderr)  # noqa: T201 - for the person who started it
        return USAGE


class _Root:
    """The composition of the root process."""

    def __init__(self, prepared: Prepared, boot: RootBoot) -> None:
        self._prepared = prepared
        self._service = prepared.settings.service
        self._forks = ForkClient(boot.forks)
        self._monitor = HeartbeatMonitor(self._service.heartbeat_seconds)
        self._boot = secrets.token_hex(8)
        self._shape = shape_for(self._service)
        self._edges: list[ProcessChild] = []
        self._slots: list[ProcessChild] = []
        self._supervisor: Supervisor

    async def run(self) -> int:
        """Open the sockets, run the tree until a signal, and leave nothing behind."""
        drain = self._service.shutdown_seconds
        public = open_tcp_listeners(self._service.host, self._service.port)
        state = self._prepared.state
        owners = [open_unix_listener(state.slot_socket(slot_name(n))) for n in range(self._shape.slots)]
        admin = open_unix_listener(state.admin_socket)
        self._plant(public, owners, admin)
        status = GAVE_UP
        async with trio.open_nursery() as nursery:
            await nursery.start(self._forks.run)
            await nursery.start(self._monitor.run)
            try:
                status = await run_until_signal(
                    partial(self._run_tree, public),
                    drain_seconds=drain + MARGIN_SECONDS + 2 * KILL_SECONDS,
                    stop_now=exit_now,
                    on_stop=lambda name: log.info("stopping", signal=name),
                    on_reload=self._reload,
                )
            except* (Escalated, StartFailed) as group:
                log.critical("gave_up", reason=_reason(group))
            nursery.cancel_scope.cancel()
        for sock in (*public, *owners, admin):
            sock.close()
        return status

    def _plant(self, public: Sequence[socket.socket], owners: Sequence[socket.socket], admin: socket.socket) -> None:
        """Describe every process and the tree they form."""
        place = Place(self._boot, self._shape.slots)
        drain = self._service.shutdown_seconds
        self._edges = [
            ProcessChild(
                self._forks,
                self._monitor,
                role="edge",
                name=f"edge-{number}",
                payload=msgspec.msgpack.encode(place),
                descriptors=[sock.fileno() for sock in public],
                drain_seconds=drain + MARGIN_SECONDS,
            )
            for number in range(self._shape.edges)
        ]
        self._slots = [
            ProcessChild(
                self._forks,
                self._monitor,
                role="agents",
                name=slot_name(number),
                payload=msgspec.msgpack.encode(msgspec.structs.replace(place, slot=number)),
                descriptors=[sock.fileno()],
                drain_seconds=drain + MARGIN_SECONDS,
            )
            for number, sock in enumerate(owners)
        ]
        app = AdminApp([*self._edges, *self._slots])
        self._supervisor = root_supervisor(self._edges, self._slots, partial(serve_admin, admin, app))
        app.describe = self._supervisor.describe

    async def _run_tree(
        self, public: Sequence[socket.socket], task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Run the tree until cancelled; then have the workers take nothing new before any of them is stopped."""
        tree = trio.CancelScope()
        async with trio.open_nursery() as nursery:
            await nursery.start(self._run_supervisor, tree)
            # Bounded: whatever cancels this task cancels `tree` a moment later, below.
            tree.shield = True
            try:
                self._say_ready(public)
                task_status.started()
                await trio.sleep_forever()
            finally:
                # A port that is still open after this would take clients whom nobody will serve.
                for sock in public:
                    sock.close()
                with trio.move_on_after(2 * ANSWER_SECONDS, shield=True):
                    await self._say_drain()
                tree.cancel()

    async def _run_supervisor(  # noqa: ASYNC128 - passed on
        self, tree: trio.CancelScope, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        with tree:
            await self._supervisor.run(task_status)

    async def _say_drain(self) -> None:
        """Have every worker begin to drain now: the stop that follows goes from one to the next."""
        async with trio.open_nursery() as nursery:
            for child in (*self._edges, *self._slots):
                nursery.start_soon(self._say_drain_to, child)

    @staticmethod
    async def _say_drain_to(child: ProcessChild) -> None:
        try:
            await child.ask(DRAIN, ANSWER_SECONDS)
        except WorkerUnavailableError as error:
            log.info("not_drained", child=child.name, reason=str(error))

    async def _reload(self) -> None:
        """Replace the slots, then the edges, one after the other (SIGHUP)."""
        log.info("rolling_restart_begins")
        problem = await rolling_restart([*self._slots, *self._edges], self._service.shutdown_seconds + 30.0)
        if problem:
            log.error("rolling_restart_stopped", reason=problem)
        else:
            log.info("rolling_restart_done")

    def _say_ready(self, public: Sequence[socket.socket]) -> None:
        host, port = public[0].getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        scheme = "https" if self._service.certfile else "http"
        lines = [hint.replace("{port}", str(port)) for hint in self._prepared.hints]
        try:
            print(*lines, f"volcanic ready {scheme}://{shown}:{port}", sep="\n", flush=True)  # noqa: T201 - for a person
        except (OSError, ValueError) as error:
            # Nobody reads it; the service is no less ready.
            log.warning("ready_line_not_written", error=repr(error))
            with contextlib.suppress(OSError, ValueError, AttributeError):
                sys.stdout.close()


def _reason(group: BaseExceptionGroup[BaseException]) -> str:
    """Return the innermost reason of a service that gave up."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    while found.__cause__ is not None:
        found = found.__cause__
    return str(found)
