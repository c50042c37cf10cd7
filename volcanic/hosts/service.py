"""The service as one call: settings in, exit status out. `python -m volcanic.supervisor` is a shell over it."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

from supervisors.fork_protocol import RootBoot, WorkerBoot
from supervisors.launcher import Role, launch
from supervisors.worker_process import run_worker
from volcanic.config import Settings
from volcanic.hosts.edge import serve_edge
from volcanic.hosts.logs import configure_logs, log_crash, log_line
from volcanic.hosts.prepare import Prepared, StartError, prepare
from volcanic.hosts.root import USAGE, run_root
from volcanic.hosts.slot import serve_slot

PRELOAD = ("volcanic.hosts.root", "volcanic.hosts.edge", "volcanic.hosts.slot", "encodings.idna")
"""Imported before the first fork, so that a process is up in milliseconds."""


def run(settings: Settings) -> int:
    """Run the service until it is told to stop; return its exit status (0 stopped, 1 gave up, 2 could not start)."""
    configure_logs("launcher")
    try:
        prepared = prepare(settings)
    except StartError as error:
        print(f"volcanic: {error}", file=sys.stderr)  # noqa: T201 - for the person who started it
        return USAGE
    booted = time.time()
    roles: dict[str, Role] = {"edge": partial(_edge, prepared, booted), "agents": partial(_slot, prepared)}
    try:
        return launch(partial(_root, prepared), roles, PRELOAD, keep=prepared.locks, log=log_line, on_crash=log_crash)
    finally:
        # Root may have been killed: what it listened on is removed by whom outlives it.
        for leftover in Path(prepared.state.root).glob("*.sock"):
            leftover.unlink(missing_ok=True)


def _root(prepared: Prepared, boot: RootBoot) -> int:
    return run_root(prepared, boot)


def _edge(prepared: Prepared, booted: float, boot: WorkerBoot) -> int:
    return run_worker(boot, partial(serve_edge, prepared, booted), on_crash=log_crash)


def _slot(prepared: Prepared, boot: WorkerBoot) -> int:
    return run_worker(boot, partial(serve_slot, prepared), on_crash=log_crash)
