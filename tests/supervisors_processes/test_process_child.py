"""A process child against a fork client that forks nothing: the turns that real processes take too rarely."""

from __future__ import annotations

import gc
import os
import random
import signal
import socket
import tracemalloc

import msgspec
import pytest
import trio

from supervisors.channel import Ask, Ready, Reply, Stop, WorkerEnd, worker_end
from supervisors.exits import ProcessExited
from supervisors.fork_client import ChildProcess, ExitStatus, ForkError
from supervisors.heartbeat import HeartbeatMonitor
from supervisors.process_child import NOT_FORKED, Envelope, ProcessChild, ProcessState, WorkerUnavailableError
from supervisors.signals import rolling_restart, run_until_signal


class FakeForks:
    """Plays launcher and worker; `mortal` says whether SIGKILL works."""

    def __init__(self) -> None:
        self.failure = ""
        self.mortal = True
        self.killed: list[int] = []
        self.incarnations: list[int] = []
        self.child: ChildProcess | None = None
        self.channel: WorkerEnd | None = None

    async def fork(self, _role, _name, payload, descriptors=()):
        await trio.lowlevel.checkpoint()
        if self.failure:
            raise ForkError(self.failure)
        self.incarnations.append(msgspec.msgpack.decode(payload, type=Envelope).incarnation)
        self.channel = worker_end(socket.socket(fileno=os.dup(descriptors[0])))
        self.child = ChildProcess(4711, None, self.kill)
        return self.child

    def kill(self, number: int) -> None:
        self.killed.append(number)
        if self.mortal:
            self.end(number)

    def end(self, status: int) -> None:
        assert self.child is not None
        assert self.channel is not None
        if self.child.status is None:
            self.child._end(ExitStatus(status))
            self.channel.close()


@pytest.fixture
def forks():
    return FakeForks()


@pytest.fixture
def child(forks):
    return ProcessChild(forks, HeartbeatMonitor(), role="role", name="w", payload=b"p")


async def bring_up(nursery: trio.Nursery, child: ProcessChild, forks: FakeForks) -> None:
    async with trio.open_nursery() as starting:
        starting.start_soon(nursery.start, child.run)
        await trio.testing.wait_all_tasks_blocked()
        assert child.state is ProcessState.STARTING
        assert forks.channel is not None
        await forks.channel.send(Ready())


async def test_life_of_a_worker_as_its_owner_sees_it(forks, child):
    assert (child.pid, child.incarnation, child.describe().state) == (None, 0, "stopped")
    async with trio.open_nursery() as nursery:
        await bring_up(nursery, child, forks)
        node = child.describe()
        assert (node.id, node.kind, node.state, node.pid, node.incarnation) == ("w", "worker", "running", 4711, 1)
        await child.wait_ready()
        forks.end(0)
    assert child.state is ProcessState.DOWN
    assert forks.incarnations == [1]


def test_spec_gives_more_time_than_a_stop_takes(child):
    spec = child.spec()
    assert spec.id == "w"
    assert spec.shutdown > child.stop_seconds


async def test_failed_fork_is_an_exit_with_the_reason(forks, child):
    forks.failure = "no memory"
    with pytest.raises(ProcessExited, match="no memory") as caught:
        await child.run()
    assert caught.value.status == NOT_FORKED
    assert child.state is ProcessState.DOWN


async def test_ready_worker_that_exits_0_has_ended_normally_an_unready_one_has_not(forks, child):
    async with trio.open_nursery() as nursery:
        await bring_up(nursery, child, forks)
        forks.end(0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(expect_exit, child, "exit status 0, before it was ready")
        await trio.testing.wait_all_tasks_blocked()
        forks.end(0)
    assert forks.incarnations == [1, 2]


async def expect_exit(child: ProcessChild, text: str) -> None:
    with pytest.raises(ProcessExited, match=text):
        await child.run()


async def test_second_ready_does_no_harm(forks, child):
    async with trio.open_nursery() as nursery:
        await bring_up(nursery, child, forks)
        await forks.channel.send(Ready())
        await trio.testing.wait_all_tasks_blocked()
        assert child.state is ProcessState.READY
        forks.end(0)


async def test_immortal_process_is_reported_and_not_waited_for_for_ever(forks, child, autojump_clock):
    forks.mortal = False
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def run() -> None:
            with scope:
                await expect_exit(child, "killed and is not gone")

        nursery.start_soon(run)
        await trio.testing.wait_all_tasks_blocked()
        asked = trio.current_time()
        scope.cancel()
    assert trio.current_time() - asked < child.stop_seconds
    assert forks.killed == [signal.SIGKILL]
    forks.channel.close()


async def test_stop_is_asked_once_and_answers_go_through_while_it_drains(forks, child):
    async with trio.open_nursery() as nursery:
        await bring_up(nursery, child, forks)
        async with trio.open_nursery() as asking:
            asking.start_soon(expect_answer, child)
            await trio.testing.wait_all_tasks_blocked()
            assert await forks.channel.receive() == Ask(id=1, payload=b"q")
            asking.start_soon(child.retire)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                assert await forks.channel.receive() == Stop()
                await trio.testing.wait_all_tasks_blocked()
                await forks.channel.send(Reply(id=1, payload=b"a"))
                await trio.testing.wait_all_tasks_blocked()
                with trio.move_on_after(0.1) as scope:
                    await forks.channel.receive()
                assert scope.cancelled_caught
                forks.end(0)
    assert forks.killed == []


async def expect_answer(child: ProcessChild) -> None:
    with trio.CancelScope(shield=True):
        assert await child.ask(b"q", 10) == b"a"


async def test_worker_that_cannot_be_told_to_stop_is_killed(forks, child):
    async with trio.open_nursery() as nursery:
        await bring_up(nursery, child, forks)
        with pytest.raises(WorkerUnavailableError, match="did not answer"):
            await child.ask(b"x" * 1_000_000, 0.2)
        with pytest.raises(WorkerUnavailableError, match="cannot be asked: an earlier message was cut"):
            await child.ask(b"q", 0.2)
        nursery.cancel_scope.cancel()
    assert forks.killed == [signal.SIGKILL]


async def test_retiring_or_asking_nobody(child):
    await child.retire()
    with pytest.raises(WorkerUnavailableError, match="w does not run"):
        await child.ask(b"q", 1)


async def test_worker_retired_before_it_is_ready_does_not_count_as_ready(forks, child):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(child.run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(child.retire)
        assert await forks.channel.receive() == Stop()
        await forks.channel.send(Ready())
        await trio.testing.wait_all_tasks_blocked()
        assert child.state is ProcessState.STOPPING
        forks.end(0)


async def test_rolling_restart_ends_at_the_first_that_does_not_come_back(forks, child, autojump_clock):
    other = ProcessChild(forks, HeartbeatMonitor(), role="role", name="other")
    assert await rolling_restart([child, other], 3.0) == (
        "w was not ready again within 3 s; the others were left as they are"
    )
    assert await rolling_restart([], 3.0) == ""


async def test_what_main_raises_comes_through(autojump_clock):
    async def main(_task_status) -> None:
        await trio.sleep(1)
        raise KeyError("main")

    with pytest.raises(KeyError, match="main"):
        await run_until_signal(main, drain_seconds=1.0)


async def test_main_that_ends_by_itself_ends_with_0(autojump_clock):
    async def main(_task_status) -> None:
        await trio.sleep(1)

    assert await run_until_signal(main, drain_seconds=1.0) == 0


async def test_hangups_during_a_reload_make_one_more():
    reloads: list[int] = []
    go_on = trio.Event()

    async def reload() -> None:
        reloads.append(len(reloads))
        await go_on.wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hang_up_four_times, reloads, go_on)
        with trio.move_on_after(10) as scope:
            await run_until_signal(stops_itself, drain_seconds=1.0, on_reload=reload)
    assert not scope.cancelled_caught
    assert reloads == [0, 1]


async def stops_itself(_task_status) -> None:
    await trio.sleep_forever()


async def hang_up_four_times(reloads: list[int], go_on: trio.Event) -> None:
    await trio.testing.wait_all_tasks_blocked(0.05)
    for _ in range(4):
        os.kill(os.getpid(), signal.SIGHUP)
        await trio.sleep(0.05)
    assert reloads == [0]
    go_on.set()
    await trio.sleep(0.1)
    os.kill(os.getpid(), signal.SIGTERM)


async def test_hangup_after_a_stop_restarts_nothing():
    reloads: list[int] = []

    async def reload() -> None:
        reloads.append(1)
        await trio.lowlevel.checkpoint()

    async def main(_task_status) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(0.3, shield=True):
                os.kill(os.getpid(), signal.SIGHUP)
                await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop_soon)
        assert await run_until_signal(main, drain_seconds=5.0, on_reload=reload) == 0
    assert reloads == []


async def stop_soon() -> None:
    await trio.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)


async def garble(child: ProcessChild, forks: FakeForks, rounds: int, dice: random.Random) -> None:
    """Have `rounds` incarnations send random bytes, some of them behind a plausible length."""
    for _ in range(rounds):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(expect_exit, child, "process .w. exited")
            await trio.testing.wait_all_tasks_blocked()
            data = dice.randbytes(dice.randrange(1, 300))
            assert forks.channel is not None
            await forks.channel._socket.send(dice.choice([b"", len(data).to_bytes(4, "big")]) + data)
            await trio.testing.wait_all_tasks_blocked()
            forks.end(0)


async def test_a_thousand_garbled_channels_leave_no_memory_behind(forks, child):
    dice = random.Random(1)
    await garble(child, forks, 50, dice)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        await garble(child, forks, 1000, dice)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 1_000_000
    finally:
        tracemalloc.stop()
    assert len(forks.killed) > 900
