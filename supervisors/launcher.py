"""The launcher: the process the user starts. It forks root and, when root asks, workers; it reaps and ends them all.

It runs no event loop of trio's and has one thread, so that a fork of it is safe, and so that PR_SET_PDEATHSIG (which
follows the forking *thread*) ties every child to its life. What may go wrong, and what then holds:

- root ends, however: every worker is killed and reaped, and root's exit status is the launcher's;
- the launcher dies: the kernel kills root and the workers (elsewhere than Linux, both leave when their pipes close);
- a worker ends: root is told, with the status;
- SIGTERM, SIGINT, SIGHUP: passed on to root, once each time they come. The children are in sessions of their own, so
  a terminal's ^C reaches them through here only. Root that does not end within `INSISTENCE` seconds of a *second*
  SIGTERM or SIGINT is killed. A SIGHUP that came because the terminal is gone counts as SIGTERM (under nohup: not).

The launcher never waits for root: what root does not read is queued, and while more than `BACKLOG` answers are queued
no further request is read, so the queue is bounded by the number of children.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import FrameType

from supervisors.fork_pipe import ForkPipe, ForkPipeError
from supervisors.fork_protocol import (
    Exited,
    Fork,
    Forked,
    ForkFailed,
    FromRoot,
    Kill,
    RootBoot,
    WorkerBoot,
)
from supervisors.forked_child import (
    MANAGED_SIGNALS,
    SAME_WISH_SECONDS,
    Birth,
    OnCrash,
    fork_child,
)
from supervisors.kernel import (
    adopt_orphans,
    children,
    has_terminal,
    open_pidfd,
    open_standard_descriptors,
    thread_count,
)

BACKLOG = 64
"""Answers queued for root above which no request is read."""
INSISTENCE = 2.0
"""Seconds that root has to end after a second SIGTERM or SIGINT, or after it closed its pipe."""
REAP_SECONDS = 10.0
"""Seconds after root's end within which every killed worker must be gone (one in an uninterruptible wait is not)."""

_READ = 65536
_STOPS = frozenset({signal.SIGTERM, signal.SIGINT})

RootMain = Callable[[RootBoot], int]
Role = Callable[[WorkerBoot], int]


class LauncherError(Exception):
    """This process cannot be a launcher; the text says why."""


def print_line(text: str) -> None:
    """Write one line about the launcher's own doings to standard error."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"launcher: {text}\n")
        sys.stderr.flush()


def print_crash(name: str, error: BaseException) -> None:
    """Write what ended the process `name` to standard error, with its traceback."""
    print_line(f"{name} ended by an exception")
    traceback.print_exception(error)


def launch(
    root_main: RootMain,
    roles: Mapping[str, Role],
    preload: Sequence[str] = (),
    *,
    keep: Collection[int] = (),
    log: Callable[[str], None] = print_line,
    on_crash: OnCrash = print_crash,
) -> int:
    """Be the launcher until root ends; return root's exit status (128 + n when signal n ended it).

    Takes over the process: its SIGTERM, SIGINT, SIGHUP and SIGCHLD, its wake-up descriptor, and every child it has.

    Args:
        root_main: runs in the root process, on its main thread; what it returns is the service's exit status.
        roles: what a worker may run, by the name that fork requests use.
        preload: modules imported before the first fork, so that no worker imports them again. They must start no thread
            and own no descriptor.
        keep: descriptors that every child inherits (a lock that must be held until the last of them is gone).
        log: takes one line of text about what the launcher did.
        on_crash: called in a child whose main raised, with its name; the exit status is then 1.

    Raises:
        LauncherError: this process has more than one thread, or root cannot be forked.
    """
    open_standard_descriptors()
    launcher = _Launcher(roles, keep, log, on_crash)
    with launcher.signals_caught():
        gc.disable()
        for module in preload:
            importlib.import_module(module)
        if thread_count() > 1:
            raise LauncherError(f"a process of {thread_count()} threads cannot fork safely")
        gc.collect()
        gc.freeze()
        return launcher.run(root_main)


class _Launcher:
    def __init__(
        self, roles: Mapping[str, Role], keep: Collection[int], log: Callable[[str], None], on_crash: OnCrash
    ) -> None:
        self._roles = roles
        self._keep = frozenset(keep)
        self._log = log
        self._on_crash = on_crash
        self._ids: dict[int, int] = {}
        self._pids: dict[int, int] = {}
        self._root = 0
        self._root_status: int | None = None
        self._root_deadline: float | None = None
        self._first_stop: float | None = None
        self._caught: deque[signal.Signals] = deque()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        ours, self._forks_of_root = socket.socketpair()
        self._forks = ForkPipe(ours)
        self._forks_open = True
        self._terminal = has_terminal()
        self._hangup_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN

    @contextlib.contextmanager
    def signals_caught(self) -> Iterator[None]:
        """Note signals as they come, and wake the loop; on leaving, everything is as it was."""
        before = {number: signal.signal(number, self._catch) for number in MANAGED_SIGNALS}
        wakeup = signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
            for sock in (self._wake_reader, self._wake_writer, self._forks, self._forks_of_root):
                sock.close()

    def run(self, root_main: RootMain) -> int:
        """Fork root, serve it until it ends, leave nothing behind."""
        early = next((number for number in self._caught if number in _STOPS), None)
        if early is not None:
            return 128 + early
        adopt_orphans()
        try:
            self._fork_root(root_main)
        except OSError as error:
            raise LauncherError(f"cannot fork root: {error}") from error
        try:
            while self._root_status is None:
                self._turn()
        finally:
            self._end_everything()
        return _exit_status(self._root_status)

    def _catch(self, number: int, _frame: FrameType | None) -> None:
        self._caught.append(signal.Signals(number))

    def _turn(self) -> None:
        poll = select.poll()
        poll.register(self._wake_reader, select.POLLIN)
        if self._forks_open:
            wanted = select.POLLIN if self._forks.queued <= BACKLOG else 0
            poll.register(self._forks, wanted | (select.POLLOUT if self._forks.queued else 0))
        ready = dict(poll.poll(self._patience()))
        self._handle_signals()
        self._reap()
        if events := ready.get(self._forks.fileno()):
            if events & ~select.POLLOUT:
                self._read_requests()
            self._forks.flush()
        if self._root_deadline is not None and self._root_deadline <= time.monotonic() and self._root_status is None:
            self._log("root does not end and is killed")
            os.kill(self._root, signal.SIGKILL)
            self._root_deadline = None

    def _patience(self) -> float | None:
        if self._root_deadline is None:
            return None
        return max(0.0, self._root_deadline - time.monotonic()) * 1000 + 1

    def _insist(self) -> None:
        if self._root_deadline is None:
            self._root_deadline = time.monotonic() + INSISTENCE

    # Signals and deaths

    def _handle_signals(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._wake_reader.recv(_READ):
                pass
        while self._caught:
            wish = self._wish(self._caught.popleft())
            if wish is not None:
                os.kill(self._root, wish)

    def _wish(self, number: signal.Signals) -> signal.Signals | None:
        """Return what a signal asks of root, or None when it asks nothing."""
        if number == signal.SIGHUP and self._terminal and not has_terminal():
            self._terminal = False
            number = signal.SIGCHLD if self._hangup_ignored else signal.SIGTERM
        if number == signal.SIGCHLD:
            return None
        if number in _STOPS:
            now = time.monotonic()
            if self._first_stop is None:
                self._first_stop = now
            elif now - self._first_stop < SAME_WISH_SECONDS:
                return None
            else:
                self._insist()
        return number

    def _reap(self) -> bool:
        """Reap every child that ended; False when there is no child at all any more."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._root:
                self._root_status = status
            elif (child := self._ids.pop(pid, None)) is not None:
                del self._pids[child]
                self._forks.tell(Exited(id=child, status=status))

    def _end_everything(self) -> None:
        """Kill what is left, and what it left, until nothing is or `REAP_SECONDS` have passed."""
        deadline = time.monotonic() + REAP_SECONDS
        if self._root_status is None:
            os.kill(self._root, signal.SIGKILL)
        if self._ids:
            self._log(f"root ended; {len(self._ids)} workers are killed")
        while True:
            for pid in {*self._ids, *children()}:
                # An adopted process may be gone, or be another user's.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if not self._reap():
                return
            if time.monotonic() > deadline:
                self._log(f"left behind, killed but not gone: {sorted({*self._ids, *children()})}")
                return
            time.sleep(0.002)

    # Requests and answers

    def _read_requests(self) -> None:
        try:
            requests = self._forks.receive()
            if requests is None:
                self._forks_open = False
                self._insist()
            for request in requests or ():
                self._serve(request)
        except ForkPipeError as error:
            self._log(f"root sent what is no request, and is killed: {error}")
            os.kill(self._root, signal.SIGKILL)
            self._forks_open = False

    def _serve(self, request: FromRoot) -> None:
        if isinstance(request, Kill):
            if (pid := self._pids.get(request.id)) is not None:
                os.kill(pid, request.signal)
            return
        descriptors = self._forks.take_descriptors(request.descriptors)
        if descriptors is None:
            self._forks.tell(ForkFailed(id=request.id, reason=os.strerror(errno.EMFILE)))
            return
        role = self._roles.get(request.role)
        try:
            if role is None:
                self._forks.tell(ForkFailed(id=request.id, reason=f"no role {request.role!r}"))
            else:
                self._fork_worker(request, role, descriptors)
        except OSError as error:
            self._forks.tell(ForkFailed(id=request.id, reason=str(error)))
        finally:
            for fd in descriptors:
                os.close(fd)

    def _fork_worker(self, request: Fork, role: Role, descriptors: tuple[int, ...]) -> None:
        boot = WorkerBoot(request.role, request.name, request.payload, descriptors)
        pid = fork_child(
            Birth(
                name=request.name,
                main=lambda: role(boot),
                keep=self._keep.union(descriptors),
                forget=self._forget,
                keeps_stop_signals=False,
                on_crash=self._on_crash,
            )
        )
        self._ids[pid] = request.id
        self._pids[request.id] = pid
        pidfd = open_pidfd(pid)
        self._forks.tell(Forked(id=request.id, pid=pid, has_pidfd=pidfd is not None), pidfd)

    def _fork_root(self, root_main: RootMain) -> None:
        fd = self._forks_of_root.fileno()
        launcher_pid = os.getpid()

        def main() -> int:
            with socket.socket(fileno=fd) as forks:
                return root_main(RootBoot(forks, launcher_pid))

        self._root = fork_child(
            Birth(
                name="root",
                main=main,
                keep=self._keep.union([fd]),
                forget=self._forget,
                keeps_stop_signals=True,
                on_crash=self._on_crash,
            )
        )
        self._forks_of_root.close()

    def _forget(self) -> None:
        # An object that closed its number later, when garbage is collected, would close somebody else's descriptor.
        for sock in (self._wake_reader, self._wake_writer, self._forks, self._forks_of_root):
            sock.detach()


def _exit_status(status: int | None) -> int:
    assert status is not None
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
