"""The root's side of the fork pipe against a launcher made of lines in a test."""

from __future__ import annotations

import array
import os
import signal
import socket

import msgspec
import pytest
import trio

from supervisors import fork_client
from supervisors.fork_client import ExitStatus, ForkClient, ForkError
from supervisors.fork_protocol import Exited, Fork, Forked, ForkFailed, FromRoot, Kill
from supervisors.frames import FrameBuffer, encode_frame


class FakeLauncher:
    def __init__(self) -> None:
        self.socket, self.of_root = socket.socketpair()
        self.socket.setblocking(False)
        self.buffer = FrameBuffer()
        self.lost: list[str] = []

    def client(self) -> ForkClient:
        return ForkClient(self.of_root, on_lost=self.lost.append)

    async def request(self) -> Fork | Kill:
        while (body := self.buffer.next()) is None:
            await trio.lowlevel.wait_readable(self.socket)
            self.buffer.feed(self.socket.recv(65536))
        return msgspec.msgpack.decode(body, type=FromRoot)

    def tell(self, message: object, *descriptors: int) -> None:
        frame = encode_frame(msgspec.msgpack.encode(message))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        self.socket.sendmsg([frame], rights)


@pytest.fixture
def launcher():
    fake = FakeLauncher()
    yield fake
    fake.socket.close()
    fake.of_root.close()


def test_exit_status_reads_as_in_subprocess():
    assert (ExitStatus(3 << 8).code, ExitStatus(3 << 8).signal, ExitStatus(3 << 8).status) == (3, None, 3)
    assert (ExitStatus(9).code, ExitStatus(9).signal, ExitStatus(9).status) == (None, 9, -9)
    assert str(ExitStatus(0)) == "exit status 0"
    assert str(ExitStatus(11)) == "killed by SIGSEGV"
    assert str(ExitStatus(50)) == "killed by signal 50"


async def test_children_are_told_apart_by_number_when_a_pid_comes_again(launcher):
    client = launcher.client()
    async with trio.open_nursery() as nursery:
        await nursery.start(client.run)
        children = []

        async def fork() -> None:
            children.append(await client.fork("role", "name", b""))

        for _ in range(2):
            nursery.start_soon(fork)
            request = await launcher.request()
            launcher.tell(Forked(id=request.id, pid=4711, has_pidfd=False))
            await trio.testing.wait_all_tasks_blocked()
            if request.id == 1:
                launcher.tell(Exited(id=1, status=0))
        await trio.testing.wait_all_tasks_blocked()
        assert (await children[0].wait()).status == 0
        assert children[1].status is None
        children[0].kill()
        children[1].kill(signal.SIGTERM)
        assert await launcher.request() == Kill(id=2, signal=signal.SIGTERM)
        nursery.cancel_scope.cancel()


async def test_child_that_ended_already_is_not_signalled_through_a_stale_pidfd(launcher):
    client = launcher.client()
    async with trio.open_nursery() as nursery:
        await nursery.start(client.run)
        nursery.start_soon(self_killer, client)
        request = await launcher.request()
        pid, pidfd = dead_process()
        launcher.tell(Forked(id=request.id, pid=pid, has_pidfd=True), pidfd)
        os.close(pidfd)
        await trio.testing.wait_all_tasks_blocked()
        launcher.tell(Exited(id=request.id, status=0))
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


def dead_process() -> tuple[int, int]:
    """The pid and a pidfd of a process that has ended and is reaped."""
    pid = os.posix_spawn("/bin/true", ["true"], {})
    pidfd = os.pidfd_open(pid)
    os.waitpid(pid, 0)
    return pid, pidfd


async def self_killer(client: ForkClient) -> None:
    child = await client.fork("role", "name", b"")
    child.kill()  # dead and reaped, but not told yet
    await child.wait()
    assert child.pidfd is None
    child.kill()


async def test_abandoned_fork_is_killed_when_its_answer_comes(launcher):
    client = launcher.client()
    async with trio.open_nursery() as nursery:
        await nursery.start(client.run)
        with trio.move_on_after(0.05):
            await client.fork("role", "name", b"")
        request = await launcher.request()
        launcher.tell(Forked(id=request.id, pid=4711, has_pidfd=False))
        assert await launcher.request() == Kill(id=request.id, signal=signal.SIGKILL)
        nursery.cancel_scope.cancel()


async def test_fork_cancelled_in_the_moment_its_answer_is_there_kills_the_child(launcher):
    client = launcher.client()
    async with trio.open_nursery() as nursery:
        await nursery.start(client.run)
        scope = trio.CancelScope()

        async def fork() -> None:
            with scope:
                await client.fork("role", "name", b"")

        nursery.start_soon(fork)
        request = await launcher.request()
        await trio.testing.wait_all_tasks_blocked()
        launcher.tell(Forked(id=request.id, pid=4711, has_pidfd=False))
        scope.cancel()
        assert await launcher.request() == Kill(id=request.id, signal=signal.SIGKILL)
        nursery.cancel_scope.cancel()


async def test_fork_cancelled_after_its_answer_came_kills_the_child(launcher):
    client = launcher.client()
    scope = trio.CancelScope()
    sendmsg = client._socket.sendmsg

    async def answered_before_it_returns(*args):
        sent = await sendmsg(*args)
        request = await launcher.request()
        if isinstance(request, Fork):
            launcher.tell(Forked(id=request.id, pid=4711, has_pidfd=False))
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
        else:
            kills.append(request)
            killed.set()
        return sent

    kills: list[Kill] = []
    killed = trio.Event()
    client._socket.sendmsg = answered_before_it_returns
    async with trio.open_nursery() as nursery:
        await nursery.start(client.run)
        with scope:
            await client.fork("role", "name", b"")
        assert scope.cancelled_caught
        with trio.fail_after(5):
            await killed.wait()
        nursery.cancel_scope.cancel()
    assert kills == [Kill(id=1, signal=signal.SIGKILL)]


async def test_request_is_never_torn_by_a_cancellation(launcher):
    client = launcher.client()
    async with trio.open_nursery() as nursery:
        await nursery.start(client.run)

        async def fork() -> None:
            with trio.move_on_after(0.1):
                await client.fork("role", "first", b"x" * 900_000)

        nursery.start_soon(fork)
        await trio.sleep(0.3)
        request = await launcher.request()
        assert (request.name, len(request.payload)) == ("first", 900_000)
        launcher.tell(Forked(id=request.id, pid=4711, has_pidfd=False))
        assert await launcher.request() == Kill(id=request.id, signal=signal.SIGKILL)
        nursery.cancel_scope.cancel()


async def test_failed_fork_says_why(launcher):
    client = launcher.client()
    async with trio.open_nursery() as nursery:
        await nursery.start(client.run)

        async def fail() -> None:
            request = await launcher.request()
            launcher.tell(ForkFailed(id=request.id, reason="no memory"))

        nursery.start_soon(fail)
        with pytest.raises(ForkError, match="no memory"):
            await client.fork("role", "name", b"")
        nursery.cancel_scope.cancel()
    with pytest.raises(ForkError, match="does not run"):
        await client.fork("role", "name", b"")


@pytest.mark.parametrize("garbage", [b"", b"\xff\xff\xff\xff", b"\x00\x00\x00\x01\xc1"])
async def test_lost_launcher_fails_waiting_and_later_forks(launcher, garbage):
    client = launcher.client()
    async with trio.open_nursery() as nursery:
        await nursery.start(client.run)

        async def fork() -> None:
            with pytest.raises(ForkError, match="the launcher"):
                await client.fork("role", "name", b"")

        nursery.start_soon(fork)
        await launcher.request()
        if garbage:
            launcher.socket.sendall(garbage)
        else:
            launcher.socket.close()
    assert len(launcher.lost) == 1
    with pytest.raises(ForkError):
        await client.fork("role", "name", b"")


async def test_launcher_that_never_reads_counts_as_lost(launcher, monkeypatch):
    monkeypatch.setattr(fork_client, "SEND_SECONDS", 0.2)
    client = launcher.client()
    async with trio.open_nursery() as nursery:
        await nursery.start(client.run)
        with pytest.raises(ForkError, match="does not read"):
            await client.fork("role", "name", b"x" * 900_000)
        assert len(launcher.lost) == 1
        with pytest.raises(ForkError, match="does not read"):
            await client.fork("role", "name", b"")
        nursery.cancel_scope.cancel()


async def test_signals_a_deaf_launcher_should_pass_on_are_bounded(launcher, monkeypatch):
    monkeypatch.setattr(fork_client, "SEND_SECONDS", 1000.0)
    lost = trio.Event()

    def on_lost(reason: str) -> None:
        launcher.lost.append(reason)
        lost.set()

    client = ForkClient(launcher.of_root, on_lost=on_lost)
    async with trio.open_nursery() as nursery:
        await nursery.start(client.run)
        nursery.start_soon(fork_and_hammer, client)
        request = await launcher.request()
        launcher.tell(Forked(id=request.id, pid=4711, has_pidfd=False))
        with trio.fail_after(5):
            await lost.wait()
        nursery.cancel_scope.cancel()
    assert launcher.lost == ["the launcher does not read"]


async def fork_and_hammer(client: ForkClient) -> None:
    child = await client.fork("role", "name", b"")
    for _ in range(1000):
        child.kill()


async def test_undelivered_pidfd_is_closed_at_the_end(launcher):
    client = launcher.client()
    reader, writer = os.pipe()
    async with trio.open_nursery() as nursery:
        await nursery.start(client.run)
        launcher.socket.sendmsg([b"\x00"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [writer]))])
        os.close(writer)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert os.read(reader, 1) == b""
    os.close(reader)
