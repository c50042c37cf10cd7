"""A worker process from the inside: `run_worker` is what a role calls. From the outside it is a `ProcessChild`.

How the composition root wires launcher, root and workers (each part's own contract is with it):

    def main() -> int:                                   # the process the user starts
        return launch(root_main, {"edge": edge_main}, preload=["volcanic.hosts.roles"])

    def root_main(boot: RootBoot) -> int:                # forked; what it returns is the service's exit status
        return trio.run(run_root, boot)

    def edge_main(boot: WorkerBoot) -> int:              # forked on request, once for each incarnation
        return run_worker(boot, serve_edge)

    async def serve_edge(context: WorkerContext) -> None:
        listener = socket.socket(fileno=context.descriptors[0])
        context.ready()
        await context.stopping.wait()                    # then drain, and return before root's patience ends

    async def run_root(boot: RootBoot) -> int:
        forks, monitor = ForkClient(boot.forks), HeartbeatMonitor()
        listeners = open_tcp_listeners("127.0.0.1", 8000)
        inherited = [listener.fileno() for listener in listeners]
        edge = ProcessChild(forks, monitor, role="edge", name="edge-0", payload=b"", descriptors=inherited)
        root = Supervisor("root", [edge.spec()], Strategy.ONE_FOR_ONE, Intensity(5, 60.0))
        async with trio.open_nursery() as nursery:       # these two outlive every process
            await nursery.start(forks.run)
            await nursery.start(monitor.run)
            status = await run_until_signal(root.run, drain_seconds=30.0, stop_now=exit_now)
            nursery.cancel_scope.cancel()
        return status
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable

import msgspec
import trio

from supervisors.channel import Ask, ChannelError, Ready, Refused, Reply, Stop, WorkerEnd, worker_end
from supervisors.fork_protocol import WorkerBoot
from supervisors.forked_child import CRASHED, ORPHANED, OnCrash, exit_now
from supervisors.heartbeat import Pulse
from supervisors.launcher import print_crash
from supervisors.process_child import Envelope, ProcessChild

__all__ = ["ProcessChild", "WorkerBoot", "WorkerContext", "run_worker"]

ASKS = 16
"""How many asks a worker holds unanswered; root is refused beyond that."""

Answerer = Callable[[bytes], Awaitable[bytes]]


class WorkerContext:
    """What the main function of a worker is given."""

    def __init__(self, boot: WorkerBoot, envelope: Envelope, pulse: Pulse) -> None:
        self.name = boot.name
        """The child's name, the same in each incarnation."""
        self.incarnation = envelope.incarnation
        """1 for the first process of this name in root's life, then one more each time."""
        self.payload = envelope.payload
        """What root gave `ProcessChild`."""
        self.descriptors = list(boot.descriptors[2:])
        """Root's descriptors in their order, under the numbers they have here; the worker's to close."""
        self.stopping = trio.Event()
        """Set when root asks this worker to leave. Main then drains and returns; root kills it when patience ends."""
        self.answer: Answerer | None = None
        """Set by main to answer `ProcessChild.ask`; what it raises refuses the ask with the exception's name."""
        self._pulse = pulse
        self._ready = trio.Event()

    def ready(self) -> None:
        """Tell root that this worker serves; later calls do nothing."""
        self._ready.set()

    def label(self, text: str) -> None:
        """Name what this worker takes up (64 bytes), shown when root has to kill it for standing still; cheap."""
        self._pulse.label(text)

    def exit_now(self, status: int) -> None:
        """End the process at once, without any clean-up but a flush of the standard streams."""
        exit_now(status)


WorkerMain = Callable[[WorkerContext], Awaitable[None]]


def run_worker(boot: WorkerBoot, main: WorkerMain, *, on_crash: OnCrash = print_crash) -> int:
    """Run `main` under trio as a worker of root's; return the process's exit status.

    Main returning is exit status 0, main raising is 1 after `on_crash(name, error)`. The process ends without unwinding
    when root is gone or talks nonsense (75), and when root says stop a second time (1).
    """
    return trio.run(_work, boot, main, on_crash)


async def _work(boot: WorkerBoot, main: WorkerMain, on_crash: OnCrash) -> int:
    await trio.lowlevel.checkpoint()
    channel_fd, pulse_fd = boot.descriptors[:2]
    pulse = Pulse(pulse_fd)
    context = WorkerContext(boot, msgspec.msgpack.decode(boot.payload, type=Envelope), pulse)
    channel = worker_end(socket.socket(fileno=channel_fd))
    asks_in, asks_out = trio.open_memory_channel[Ask](ASKS)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pulse.run)
            nursery.start_soon(_listen, channel, context, asks_in)
            nursery.start_soon(_answer, channel, context, asks_out)
            nursery.start_soon(_announce, channel, context)
            await main(context)
            nursery.cancel_scope.cancel()
    except Exception as error:  # noqa: BLE001 - the last frame of the process: whatever it was becomes an exit status
        on_crash(boot.name, _bare(error))
        return CRASHED
    return 0


async def _listen(channel: WorkerEnd, context: WorkerContext, asks: trio.MemorySendChannel[Ask]) -> None:
    """Take root's messages. Without root there is nothing to serve and nobody to clean up for."""
    await trio.lowlevel.checkpoint()
    try:
        while True:
            message = await channel.receive()
            if isinstance(message, Stop):
                if context.stopping.is_set():
                    context.exit_now(CRASHED)
                context.stopping.set()
                continue
            try:
                asks.send_nowait(message)
            except trio.WouldBlock:
                await channel.send(Refused(id=message.id, reason="busy"))
    except ChannelError:
        context.exit_now(ORPHANED)


async def _announce(channel: WorkerEnd, context: WorkerContext) -> None:
    await context._ready.wait()  # noqa: SLF001 - the context is this module's
    await _send(channel, context, Ready())


async def _answer(channel: WorkerEnd, context: WorkerContext, asks: trio.MemoryReceiveChannel[Ask]) -> None:
    while True:
        ask = await asks.receive()
        await _send(channel, context, await _answer_one(context, ask))


async def _answer_one(context: WorkerContext, ask: Ask) -> Reply | Refused:
    await trio.lowlevel.checkpoint()
    if context.answer is None:
        return Refused(id=ask.id, reason="this worker answers nothing")
    try:
        return Reply(id=ask.id, payload=await context.answer(ask.payload))
    except Exception as error:  # noqa: BLE001 - root is told; a question must not end the worker
        return Refused(id=ask.id, reason=type(error).__name__)


async def _send(channel: WorkerEnd, context: WorkerContext, message: Ready | Reply | Refused) -> None:
    await trio.lowlevel.checkpoint()
    try:
        await channel.send(message)
    except ChannelError:
        context.exit_now(ORPHANED)


def _bare(error: Exception) -> BaseException:
    """Return the one exception inside nested groups of one."""
    bare: BaseException = error
    while isinstance(bare, BaseExceptionGroup) and len(bare.exceptions) == 1:
        bare = bare.exceptions[0]
    return bare
