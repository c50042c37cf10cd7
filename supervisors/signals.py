"""Root's signals: SIGTERM and SIGINT drain with a deadline, a second one stops at once, SIGHUP restarts by and by."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

import attrs
import trio

from supervisors.forked_child import SAME_WISH_SECONDS, exit_now
from supervisors.process_child import ProcessChild

DEADLINE_MISSED = 1
"""Exit status of a service that could not drain in time."""

Main = Callable[[trio.TaskStatus[None]], Awaitable[None]]


async def run_until_signal(
    main: Main,
    *,
    drain_seconds: float,
    stop_now: Callable[[int], None] = exit_now,
    on_stop: Callable[[str], None] = lambda _signal_name: None,
    on_reload: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
) -> int:
    """Run `main` until it ends, or until SIGTERM or SIGINT cancels it; return the exit status, 0.

    Args:
        main: has the shape of a supervisor's `run`; being cancelled is its request to drain. What it raises comes
            through.
        drain_seconds: from the first signal until `stop_now(1)`.
        stop_now: ends the process with the given status, without unwinding. Called with 128 + n for a second signal n.
        on_stop: told the first signal's name before `main` is cancelled.
        on_reload: awaited for SIGHUP, one at a time; those that come meanwhile make one more. What it raises comes
            through, so it handles its own errors.
    """
    await trio.lowlevel.checkpoint()
    failure: Exception | None = None
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async with trio.open_nursery() as nursery:
            running = trio.CancelScope()
            reloads_in, reloads_out = trio.open_memory_channel[None](1)
            nursery.start_soon(_reload, reloads_out, running, on_reload)
            obey = _Obedience(nursery, running, reloads_in, drain_seconds, stop_now, on_stop)
            nursery.start_soon(obey.run, signals)
            with running:
                try:
                    await main(trio.TASK_STATUS_IGNORED)
                except Exception as error:  # noqa: BLE001 - raised below, outside the nursery's group
                    failure = error
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return 0


async def rolling_restart(children: Iterable[ProcessChild], ready_seconds: float) -> str:
    """Replace the processes of `children` one after the other; return "" or what stopped it.

    Each one is replaced only when its predecessor's successor is ready, so one that does not come back within
    `ready_seconds` costs no other.
    """
    await trio.lowlevel.checkpoint()
    for child in children:
        await child.retire()
        with trio.move_on_after(ready_seconds) as patience:
            await child.wait_ready()
        if patience.cancelled_caught:
            return f"{child.name} was not ready again within {ready_seconds:g} s; the others were left as they are"
    return ""


async def _reload(
    wishes: trio.MemoryReceiveChannel[None], running: trio.CancelScope, on_reload: Callable[[], Awaitable[None]]
) -> None:
    while True:
        await wishes.receive()
        if not running.cancel_called:
            await on_reload()


@attrs.define(eq=False)
class _Obedience:
    """Does what the signals say."""

    nursery: trio.Nursery
    running: trio.CancelScope
    reloads: trio.MemorySendChannel[None]
    drain_seconds: float
    stop_now: Callable[[int], None]
    on_stop: Callable[[str], None]
    first: float = 0.0

    async def run(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            if number == signal.SIGHUP:
                self._ask_for_reload()
            elif not self.running.cancel_called:
                self.first = trio.current_time()
                self.on_stop(signal.Signals(number).name)
                self.running.cancel()
                self.nursery.start_soon(self._lose_patience)
            elif trio.current_time() - self.first > SAME_WISH_SECONDS:
                self.stop_now(128 + number)

    def _ask_for_reload(self) -> None:
        try:
            self.reloads.send_nowait(None)
        except trio.WouldBlock:
            # One is waiting already; it will do for this wish, too.
            return

    async def _lose_patience(self) -> None:
        await trio.sleep(self.drain_seconds)
        self.stop_now(DEADLINE_MISSED)
