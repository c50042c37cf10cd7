"""The root's side of the fork pipe: ask the launcher for a child, wait for its end, signal it.

A child is named by a number that is never used twice and signalled through its pidfd, so a pid that the kernel hands
out again reaches nobody else.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
from collections.abc import Callable, Sequence

import attrs
import msgspec
import trio

from supervisors.fork_protocol import (
    DESCRIPTOR_LIMIT,
    Descriptors,
    Exited,
    Fork,
    Forked,
    ForkFailed,
    FromLauncher,
    FromRoot,
    Kill,
)
from supervisors.forked_child import ORPHANED, exit_now
from supervisors.frames import FrameBuffer, FrameError, encode_frame

SEND_SECONDS = 10.0
"""How long the launcher, which never waits for anything, may take to read a request before it counts as lost."""

_READ = 65536
_KILLS = 256


class ForkError(Exception):
    """There is no child; the text says why."""


@attrs.frozen
class ExitStatus:
    """How a process ended: waitpid's status, read."""

    raw: int

    @property
    def status(self) -> int:
        """The exit status, or minus the signal that ended it, as in `subprocess`."""
        return os.waitstatus_to_exitcode(self.raw)

    @property
    def code(self) -> int | None:
        """The exit status, or None when a signal ended it."""
        return os.WEXITSTATUS(self.raw) if os.WIFEXITED(self.raw) else None

    @property
    def signal(self) -> int | None:
        """The signal that ended it, or None when it exited."""
        return os.WTERMSIG(self.raw) if os.WIFSIGNALED(self.raw) else None

    def __str__(self) -> str:
        if self.signal is None:
            return f"exit status {self.code}"
        try:
            return f"killed by {signal.Signals(self.signal).name}"
        except ValueError:
            return f"killed by signal {self.signal}"


class ChildProcess:
    """A forked worker. `ForkClient` reaps it (by the launcher) and closes its pidfd; nobody needs to."""

    def __init__(self, pid: int, pidfd: int | None, kill_by_launcher: Callable[[int], None]) -> None:
        self.pid = pid
        self.pidfd = pidfd
        self.status: ExitStatus | None = None
        self._kill_by_launcher = kill_by_launcher
        self._ended = trio.Event()

    async def wait(self) -> ExitStatus:
        """Wait until it is dead and reaped."""
        await self._ended.wait()
        assert self.status is not None
        return self.status

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send it a signal; nothing happens when it is dead."""
        if self.status is not None:
            return
        if self.pidfd is None:
            self._kill_by_launcher(number)
            return
        # Dead, but the news of it is still under way.
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)

    def _end(self, status: ExitStatus) -> None:
        self.status = status
        if self.pidfd is not None:
            os.close(self.pidfd)
        self.pidfd = None
        self._ended.set()


@attrs.define(eq=False)
class _Request:
    """A fork request whose answer is outstanding; an abandoned one's child is killed as soon as it is known."""

    answered: trio.Event = attrs.field(factory=trio.Event)
    answer: ChildProcess | str | None = None
    abandoned: bool = False

    def settle(self, answer: ChildProcess | str) -> None:
        self.answer = answer
        self.answered.set()
        if self.abandoned and isinstance(answer, ChildProcess):
            answer.kill()


def leave_orphaned(_reason: str) -> None:
    """End the root at once: without its launcher it can neither fork nor reap."""
    exit_now(ORPHANED)


class ForkClient:
    """Asks the launcher. Runs as the first child of the root's tree and must outlive every process it forked."""

    def __init__(self, forks: socket.socket, *, on_lost: Callable[[str], None] = leave_orphaned) -> None:
        """Take over `forks`, the pipe of `RootBoot`.

        Args:
            forks: owned and closed by `run`.
            on_lost: called once when the launcher is gone or does not read; the default ends this process.
        """
        self._socket = trio.socket.from_stdlib_socket(forks)
        self._on_lost = on_lost
        self._ids = itertools.count(1)
        self._requests: dict[int, _Request] = {}
        self._children: dict[int, ChildProcess] = {}
        self._sending = trio.Lock()
        self._kills_in, self._kills_out = trio.open_memory_channel[Kill](_KILLS)
        self._running = False
        self._broken = ""
        self._buffer = FrameBuffer()
        self._descriptors = Descriptors()
        self._decoder: msgspec.msgpack.Decoder[FromLauncher] = msgspec.msgpack.Decoder(FromLauncher)

    async def run(  # noqa: ASYNC114 - started by the composition root
        self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Take in the launcher's answers until cancelled, or until the launcher is lost (`on_lost`)."""
        self._running = True
        task_status.started()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send_kills)
                await self._read_all()
                nursery.cancel_scope.cancel()
        finally:
            self._running = False
            self._socket.close()
            self._descriptors.close()

    async def fork(self, role: str, name: str, payload: bytes, descriptors: Sequence[int] = ()) -> ChildProcess:
        """Have a worker forked that runs `role`; it gets copies of `descriptors`, which stay the caller's to close.

        A cancelled call leaves no child: one that was forked meanwhile is killed.

        Raises:
            ForkError: unknown role, no process or descriptor left, a payload too long, or no launcher.
        """
        if len(descriptors) > DESCRIPTOR_LIMIT:
            raise ForkError(f"{len(descriptors)} descriptors are over the limit of {DESCRIPTOR_LIMIT}")
        if not self._running or self._broken:
            raise ForkError(self._broken or "the fork client does not run")
        number = next(self._ids)
        message = Fork(id=number, role=role, name=name, payload=payload, descriptors=len(descriptors))
        request = _Request()
        try:
            frame = _encode(message)
        except FrameError as error:
            raise ForkError(str(error)) from None
        try:
            await self._send(frame, descriptors, lambda: self._requests.update({number: request}))
            await request.answered.wait()
        except BaseException:
            request.abandoned = True
            if isinstance(request.answer, ChildProcess):
                request.answer.kill()
            raise
        if isinstance(request.answer, ChildProcess):
            return request.answer
        raise ForkError(request.answer)

    async def _send(
        self, frame: bytes, descriptors: Sequence[int] = (), begun: Callable[[], None] = lambda: None
    ) -> None:
        """Write one whole frame: a torn one would make nonsense of all that follow, so cancellation waits.

        `begun` is called once it cannot be cancelled any more.
        """
        await trio.lowlevel.checkpoint()
        async with self._sending:
            begun()
            try:
                with trio.fail_after(SEND_SECONDS, shield=True):
                    sent = await self._socket.sendmsg([frame], Descriptors.rights(descriptors))
                    while sent < len(frame):
                        sent += await self._socket.send(frame[sent:])
            except (OSError, trio.TooSlowError) as error:
                self._lose(f"the launcher does not read: {error!r}")
                raise ForkError(self._broken) from None

    async def _read_all(self) -> None:
        await trio.lowlevel.checkpoint()
        try:
            while await self._read():
                pass
        except (OSError, FrameError, msgspec.MsgspecError) as error:
            self._lose(f"the launcher's pipe broke: {error}")
        else:
            self._lose("the launcher closed its pipe")

    async def _read(self) -> bool:
        data, ancillary, flags, _ = await self._socket.recvmsg(_READ, Descriptors.SPACE)
        self._descriptors.feed(ancillary, flags)
        self._buffer.feed(data)
        while (body := self._buffer.next()) is not None:
            self._take(self._decoder.decode(body))
        return bool(data)

    def _take(self, message: FromLauncher) -> None:
        if isinstance(message, Exited):
            if (child := self._children.pop(message.id, None)) is not None:
                child._end(ExitStatus(message.status))  # noqa: SLF001 - the two classes are one module's
            return
        request = self._requests.pop(message.id)
        if isinstance(message, ForkFailed):
            request.settle(message.reason)
            return
        child = self._children[message.id] = self._child(message)
        request.settle(child)

    def _child(self, message: Forked) -> ChildProcess:
        pidfds = self._descriptors.take(int(message.has_pidfd))
        return ChildProcess(
            message.pid, pidfds[0] if pidfds else None, lambda number: self._kill_by_launcher(message.id, number)
        )

    def _kill_by_launcher(self, child: int, number: int) -> None:
        """Signal through the launcher, for want of a pidfd."""
        try:
            self._kills_in.send_nowait(Kill(id=child, signal=int(number)))
        except trio.WouldBlock:
            self._lose("the launcher does not read")

    async def _send_kills(self) -> None:
        while True:
            kill = await self._kills_out.receive()
            await self._send(_encode(kill))

    def _lose(self, reason: str) -> None:
        if self._broken:
            return
        self._broken = reason
        for request in self._requests.values():
            request.settle(reason)
        self._requests.clear()
        self._on_lost(reason)


def _encode(message: FromRoot) -> bytes:
    return encode_frame(msgspec.msgpack.encode(message))
