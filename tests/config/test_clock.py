"""The clock that everything takes."""

from __future__ import annotations

import time

import trio

from volcanic.clock import SYSTEM


async def test_the_system_clock_is_the_machines_and_trios(autojump_clock):
    assert abs(SYSTEM.wall() - time.time()) < 5
    before = SYSTEM.monotonic()
    assert before == trio.current_time()
    await SYSTEM.sleep(3600)
    assert SYSTEM.monotonic() - before == 3600
