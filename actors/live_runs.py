"""The live runs of a slot by task id: what is shown as working and is."""

from __future__ import annotations

import trio

from actors.task_run import TaskRun


class LiveRuns:
    """Every run from before its start is stored until after its end is.

    A task that is stored as active and is not in here was left by a crash.
    """

    def __init__(self) -> None:
        self._runs: dict[str, TaskRun] = {}
        self._lot = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._runs

    def get(self, task_id: str) -> TaskRun | None:
        """Return the live run of a task, or None."""
        return self._runs.get(task_id)

    def add(self, run: TaskRun) -> None:
        """Enter a run."""
        self._runs[run.task_id] = run

    def remove(self, run: TaskRun) -> None:
        """Drop a run."""
        self._runs.pop(run.task_id, None)
        if not self._runs:
            self._lot.unpark_all()

    def interrupt(self) -> None:
        """Interrupt every run."""
        for run in list(self._runs.values()):
            run.interrupt()

    async def none_left(self) -> None:
        """Wait until no run is live."""
        while self._runs:
            await self._lot.park()
