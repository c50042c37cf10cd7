import gc
import time
import tracemalloc

import pytest
import trio

from supervisors.child_spec import ChildSpec
from supervisors.dynamic import DynamicSupervisor
from tests.supervisors.stage import performing


async def parked(status):
    status.started()
    await trio.sleep_forever()


async def fill(sup, count):
    for number in range(count):
        sup.start_child(ChildSpec(f"c{number}", parked))
        if number % 500 == 0:
            await trio.lowlevel.checkpoint()
    await trio.testing.wait_all_tasks_blocked()


async def test_a_child_costs_a_few_kilobytes_and_gives_them_back():
    sup = DynamicSupervisor("d")
    tracemalloc.start()
    try:
        async with performing(sup) as performance:
            await fill(sup, 100)
            for number in range(100):
                assert await sup.stop_child(f"c{number}")
            empty = tracemalloc.get_traced_memory()[0]
            await fill(sup, 2000)
            each = (tracemalloc.get_traced_memory()[0] - empty) / 2000
            assert each < 6_000
            for number in range(2000):
                sup.request_stop(f"c{number}")
            await trio.testing.wait_all_tasks_blocked()
            assert len(sup) == 0
            gc.collect()
            assert tracemalloc.get_traced_memory()[0] - empty < 2000 * 0.15 * each
            await performance.stop()
    finally:
        tracemalloc.stop()


async def test_starting_and_stopping_is_linear():
    seconds = []
    for count in (1000, 8000):
        sup = DynamicSupervisor("d")
        began = time.perf_counter()
        async with performing(sup):
            await fill(sup, count)
        seconds.append((time.perf_counter() - began) / count)
    assert seconds[1] < 5 * seconds[0]


@pytest.mark.slow
async def test_a_hundred_thousand_children_and_the_loop_stays_responsive():
    sup = DynamicSupervisor("d")
    lag = 0.0

    async def probe():
        nonlocal lag
        while True:
            began = time.perf_counter()
            await trio.sleep(0.005)
            lag = max(lag, time.perf_counter() - began - 0.005)

    async with trio.open_nursery() as nursery:
        async with performing(sup) as performance:
            began = time.perf_counter()
            await fill(sup, 100_000)
            up = time.perf_counter() - began
            assert len(sup.children()) == 100_000
            nursery.start_soon(probe)
            began = time.perf_counter()
            await performance.stop()
            down = time.perf_counter() - began
        nursery.cancel_scope.cancel()
    print(f"100,000 children: up {up:.1f} s, down {down:.1f} s, longest pause while stopping {lag:.2f} s")
    assert len(sup) == 0
    assert up < 40
    assert down < 30
    assert lag < 3
