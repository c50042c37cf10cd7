"""The watch over counts, on a clock of its own."""

from __future__ import annotations

import os

import pytest
import trio

from supervisors import heartbeat
from supervisors.heartbeat import HeartbeatMemory, HeartbeatMonitor, Pulse


@pytest.fixture
def memory():
    page = HeartbeatMemory("w")
    yield page
    page.close()


@pytest.fixture
def pulse(memory):
    return Pulse(os.dup(memory.fd))


def test_counts_and_labels_cross_the_page(memory, pulse):
    assert memory.count() == 0
    assert memory.label() == ""
    for _ in range(300):
        pulse.beat()
    pulse.label("SendMessage")
    assert memory.count() == 300
    assert memory.label() == "SendMessage"
    pulse.label("ä" * 100)
    assert memory.label() == "ä" * 32
    pulse.label("a" + "ä" * 100)
    assert memory.label() == "a" + "ä" * 31 + "\N{REPLACEMENT CHARACTER}"
    pulse.label("\ud800")
    assert memory.label() == "?"
    pulse.label("")
    assert memory.label() == ""


def test_page_works_without_memfd(monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    page = HeartbeatMemory("w")
    Pulse(os.dup(page.fd)).beat()
    assert page.count() == 1
    page.close()


async def test_beating_worker_is_left_alone(autojump_clock, memory, pulse):
    silent: list[str] = []
    monitor = HeartbeatMonitor()
    async with trio.open_nursery() as nursery:
        await nursery.start(monitor.run)
        nursery.start_soon(pulse.run)
        with monitor.watch(memory, silent.append):
            await trio.sleep(3600)
        nursery.cancel_scope.cancel()
    assert silent == []
    assert memory.count() > 3600 / heartbeat.BEAT_SECONDS - 2


async def test_silent_worker_is_told_once_with_its_last_label(autojump_clock, memory, pulse):
    silent: list[str] = []
    monitor = HeartbeatMonitor()
    async with trio.open_nursery() as nursery:
        await nursery.start(monitor.run)
        with monitor.watch(memory, silent.append):
            with trio.move_on_after(30):
                await pulse.run()
            pulse.label("CancelTask")
            await trio.sleep(9.5)
            assert silent == []
            await trio.sleep(1.0)
            assert silent == ["its loop stood still for 10.0 s; the last thing it took up: CancelTask"]
            await trio.sleep(100)
        nursery.cancel_scope.cancel()
    assert len(silent) == 1


async def test_worker_that_never_counts_is_silent_from_its_fork_on(autojump_clock, memory):
    silent: list[str] = []
    monitor = HeartbeatMonitor(silence_seconds=2.0)
    async with trio.open_nursery() as nursery:
        await nursery.start(monitor.run)
        with monitor.watch(memory, silent.append):
            await trio.sleep(2.5)
        nursery.cancel_scope.cancel()
    assert silent == ["its loop stood still for 2.0 s; it had taken up nothing"]


async def test_late_ticks_of_root_add_nothing(memory, mock_clock):
    silent: list[str] = []
    monitor = HeartbeatMonitor(silence_seconds=2.0)

    async def tick(seconds: float) -> None:
        mock_clock.jump(seconds)
        await trio.testing.wait_all_tasks_blocked()

    async with trio.open_nursery() as nursery:
        await nursery.start(monitor.run)
        with monitor.watch(memory, silent.append):
            await trio.testing.wait_all_tasks_blocked()
            for _ in range(100):
                await tick(0.6)  # more than twice a tick: root was late
            assert silent == []
            for _ in range(7):
                await tick(0.25)
            assert silent == []
            await tick(0.25)
            assert len(silent) == 1
        nursery.cancel_scope.cancel()


async def test_one_beat_starts_the_count_of_silence_anew(autojump_clock, memory, pulse):
    silent: list[str] = []
    monitor = HeartbeatMonitor(silence_seconds=2.0)
    async with trio.open_nursery() as nursery:
        await nursery.start(monitor.run)
        with monitor.watch(memory, silent.append):
            for _ in range(10):
                await trio.sleep(1.6)
                pulse.beat()
        nursery.cancel_scope.cancel()
    assert silent == []
