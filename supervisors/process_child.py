"""A worker process as a child of a supervisor: `ProcessChild.run` is a start function that lives as long as it does."""

from __future__ import annotations

import enum
import signal
import socket
from collections.abc import Callable, Sequence

import attrs
import msgspec
import trio

from supervisors.channel import Ask, ChannelClosedError, ChannelError, Ready, Refused, Reply, RootEnd, Stop, root_end
from supervisors.child_spec import PERMANENT, ChildSpec, Counts
from supervisors.exits import ProcessExited
from supervisors.fork_client import ChildProcess, ExitStatus, ForkClient, ForkError
from supervisors.heartbeat import HeartbeatMemory, HeartbeatMonitor
from supervisors.tree import TreeNode

START_SECONDS = 30.0
"""How long a worker may take from its fork until it says ready."""
DRAIN_SECONDS = 5.0
"""How long a worker may take to leave when asked."""
KILL_SECONDS = 5.0
"""How long the kernel and the launcher may take to be done with a killed process."""
NOT_FORKED = 71
"""Status told of a process that never was (sysexits' EX_OSERR)."""
_PARTING_SECONDS = 1.0
"""How long a worker that closed its channel may still live."""


class WorkerUnavailableError(Exception):
    """The worker gave no answer: it does not run, ended meanwhile, refused, or let the time pass."""


class Envelope(msgspec.Struct, forbid_unknown_fields=True):
    """What a `ProcessChild` adds to the payload of its owner."""

    incarnation: int
    payload: bytes


class ProcessState(enum.Enum):
    """Where a worker is in its life; the values are the tree's words."""

    DOWN = "stopped"
    STARTING = "starting"
    READY = "running"
    STOPPING = "stopping"


@attrs.define(eq=False)
class _Answer:
    arrived: trio.Event = attrs.field(factory=trio.Event)
    reply: Reply | Refused | None = None


@attrs.define(eq=False)
class _Incarnation:
    """One process: its channel, what is asked of it, and why root killed it, if root did."""

    process: ChildProcess
    channel: RootEnd
    ready: trio.Event = attrs.field(factory=trio.Event)
    reason: str = ""
    told_to_stop: bool = False
    asked: int = 0
    answers: dict[int, _Answer] = attrs.field(factory=dict)

    def doom(self, reason: str) -> None:
        """Kill it; the first reason given is the one that is told."""
        self.reason = self.reason or reason
        self.process.kill(signal.SIGKILL)

    async def listen(self) -> None:
        """Take its messages until the channel ends."""
        await trio.lowlevel.checkpoint()
        try:
            while True:
                self._take(await self.channel.receive())
        except ChannelClosedError:
            # Its end is told by the launcher; one that only closed its channel can be neither stopped nor asked.
            with trio.move_on_after(_PARTING_SECONDS):
                await self.process.wait()
                return
            self.doom("it closed its channel")
        except ChannelError as error:
            self.doom(f"garbage on its channel: {error}")

    def _take(self, message: Ready | Reply | Refused) -> None:
        if isinstance(message, Ready):
            self.ready.set()
            return
        if not 0 < message.id <= self.asked:
            raise ChannelError(f"an answer to question {message.id}, of {self.asked}")
        if (answer := self.answers.pop(message.id, None)) is not None:
            answer.reply = message
            answer.arrived.set()

    def abandon_answers(self) -> None:
        """Let everybody who waits for an answer know that none will come."""
        for answer in self.answers.values():
            answer.arrived.set()
        self.answers.clear()


class ProcessChild:
    """Forks a worker, watches it, tells how it ended; the supervisor decides what follows.

    Owns the process, its channel and its heartbeat page, all three closed when `run` ends. Descriptors and the fork
    client stay their owner's.
    """

    def __init__(
        self,
        forks: ForkClient,
        monitor: HeartbeatMonitor,
        *,
        role: str,
        name: str,
        payload: bytes = b"",
        descriptors: Sequence[int] = (),
        start_seconds: float = START_SECONDS,
        drain_seconds: float = DRAIN_SECONDS,
        on_state: Callable[[ProcessChild], None] = lambda _child: None,
    ) -> None:
        """Describe the worker; nothing runs yet.

        Args:
            forks: runs for longer than this child.
            monitor: likewise; judges the worker's heartbeat from its fork on.
            role: a key of the launcher's roles.
            name: the same in each incarnation; shown by `ps` (15 bytes).
            payload: bytes for `WorkerContext.payload`.
            descriptors: for `WorkerContext.descriptors`; copies travel.
            start_seconds: from fork to ready; a worker that takes longer is killed.
            drain_seconds: from the request to leave to SIGKILL.
            on_state: called at each change of `state`, synchronously.
        """
        self.name = name
        self.state = ProcessState.DOWN
        self.incarnation = 0
        """How often this child was started; restarts are one fewer."""
        self._forks = forks
        self._monitor = monitor
        self._role = role
        self._payload = payload
        self._descriptors = tuple(descriptors)
        self._start_seconds = start_seconds
        self._drain_seconds = drain_seconds
        self._on_state = on_state
        self._current: _Incarnation | None = None
        self._changed = trio.Event()

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return self._current.process.pid if self._current is not None else None

    def spec(self, counts: Counts = Counts.BEFORE_READY) -> ChildSpec:
        """Return the spec of this worker: permanent, under its name, with time enough to stop, its pid in the tree."""
        return ChildSpec(
            self.name,
            self.run,
            restart=PERMANENT,
            shutdown=self.stop_seconds + 1.0,
            counts=counts,
            describe=self.describe,
        )

    def describe(self) -> TreeNode:
        """Return this worker's node of the tree, without what is inside the process (`ask` for that)."""
        return TreeNode(id=self.name, kind="worker", state=self.state.value, incarnation=self.incarnation, pid=self.pid)

    @property
    def stop_seconds(self) -> float:
        """The longest that `run` takes to end once cancelled; its child spec's `shutdown` is above it."""
        return self._drain_seconds + KILL_SECONDS + 1.0

    async def run(  # noqa: ASYNC114 - started by a supervisor or by the composition root
        self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Fork the worker, report started when it is ready, return when it exited with status 0 after that.

        When cancelled: asks it to leave, kills it after `drain_seconds`, and is done only when it is reaped.

        Raises:
            ProcessExited: it ended in any other way, or could not be forked, or did not die when killed.
        """

        def ready() -> None:
            if self.state is ProcessState.STARTING:
                self._set(ProcessState.READY)
            task_status.started()

        self.incarnation += 1
        self._set(ProcessState.STARTING)
        memory = HeartbeatMemory(self.name)
        try:
            current = self._current = await self._fork(memory)
            try:
                with self._monitor.watch(memory, current.doom):
                    status = await self._live(current, ready)
            finally:
                try:
                    if current.process.status is None:
                        with trio.move_on_after(self.stop_seconds, shield=True):
                            await self._stop(current)
                finally:
                    current.abandon_answers()
                    current.channel.close()
        finally:
            memory.close()
            self._current = None
            self._set(ProcessState.DOWN)
        if status.signal == signal.SIGKILL and not current.reason and not current.ready.is_set():
            # Killed from outside: that says nothing about whether it can start, and must not end the service.
            task_status.started()
        if status.code != 0 or not current.ready.is_set() or current.reason:
            raise ProcessExited(self.name, status.status, _reason(current, status))

    async def ask(self, payload: bytes, seconds: float) -> bytes:
        """Return the worker's answer to `payload`.

        Raises:
            WorkerUnavailableError: no answer within `seconds`, or none to be had; the text says which.
        """
        current = self._current
        if current is None:
            raise WorkerUnavailableError(f"{self.name} does not run")
        current.asked += 1
        number = current.asked
        answer = current.answers[number] = _Answer()
        try:
            with trio.fail_after(seconds):
                await current.channel.send(Ask(id=number, payload=payload))
                await answer.arrived.wait()
        except trio.TooSlowError:
            raise WorkerUnavailableError(f"{self.name} did not answer within {seconds:g} s") from None
        except ChannelError as error:
            raise WorkerUnavailableError(f"{self.name} cannot be asked: {error}") from None
        finally:
            current.answers.pop(number, None)
        if isinstance(answer.reply, Reply):
            return answer.reply.payload
        reason = answer.reply.reason if answer.reply is not None else "it ended"
        raise WorkerUnavailableError(f"{self.name} gave no answer: {reason}")

    async def retire(self) -> None:
        """Have the present process leave, for a rolling restart; return when it is gone. The next is its supervisor's.

        Like a stop it drains for `drain_seconds` at most. Does nothing when no process runs.
        """
        current = self._current
        if current is None:
            await trio.lowlevel.checkpoint()
            return
        self._set(ProcessState.STOPPING)
        with trio.move_on_after(self._drain_seconds):
            await self._say_stop(current)
            await current.process.wait()
            return
        current.doom(f"it did not leave within {self._drain_seconds:g} s")
        await current.process.wait()

    async def wait_ready(self) -> None:
        """Wait until a process of this child is ready."""
        while self.state is not ProcessState.READY:
            await self._changed.wait()
        await trio.lowlevel.checkpoint()

    async def _fork(self, memory: HeartbeatMemory) -> _Incarnation:
        ours, theirs = socket.socketpair()
        payload = msgspec.msgpack.encode(Envelope(self.incarnation, self._payload))
        try:
            process = await self._forks.fork(
                self._role, self.name, payload, [theirs.fileno(), memory.fd, *self._descriptors]
            )
        except ForkError as error:
            ours.close()
            raise ProcessExited(self.name, NOT_FORKED, str(error)) from error
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return _Incarnation(process, root_end(ours))

    async def _live(self, current: _Incarnation, ready: Callable[[], None]) -> ExitStatus:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(current.listen)
            nursery.start_soon(self._see_it_start, current, ready)
            status = await current.process.wait()
            nursery.cancel_scope.cancel()
        return status

    async def _see_it_start(self, current: _Incarnation, ready: Callable[[], None]) -> None:
        with trio.move_on_after(self._start_seconds):
            await current.ready.wait()
            ready()
            return
        current.doom(f"it was not ready within {self._start_seconds:g} s")

    async def _stop(self, current: _Incarnation) -> None:
        """Runs shielded by its caller, for `stop_seconds` at most."""
        self._set(ProcessState.STOPPING)
        with trio.move_on_after(self._drain_seconds):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(current.listen)
                await self._say_stop(current)
                await current.process.wait()
                nursery.cancel_scope.cancel()
        current.process.kill(signal.SIGKILL)
        with trio.move_on_after(KILL_SECONDS):
            await current.process.wait()
        if current.process.status is None:
            raise ProcessExited(self.name, -signal.SIGKILL, "it was killed and is not gone")

    async def _say_stop(self, current: _Incarnation) -> None:
        """Ask it to leave, once: a second request would mean at once."""
        await trio.lowlevel.checkpoint()
        if current.told_to_stop:
            return
        current.told_to_stop = True
        try:
            await current.channel.send(Stop())
        except ChannelError as error:
            current.doom(f"it cannot be told to stop: {error}")

    def _set(self, state: ProcessState) -> None:
        self.state = state
        self._changed.set()
        self._changed = trio.Event()
        self._on_state(self)


def _reason(current: _Incarnation, status: ExitStatus) -> str:
    """Say what is known of an end: why root killed it, or else how it died, and whether it ever served."""
    told = current.reason or str(status)
    return told if current.ready.is_set() else f"{told}, before it was ready"
