"""What can say no before the first process is forked: folders, locks, the model, certificates, the demo key."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import sys
import time
from collections.abc import Callable
from pathlib import Path

import attrs
import msgspec

from volcanic.agent.models.faux import echo_model, scripted_model
from volcanic.agent.models.faux_check import ScriptError
from volcanic.agent.models.port import Model
from volcanic.config import ServiceSettings, Settings
from volcanic.hosts.stderr import is_terminal
from volcanic.server.tls import CertificateError, server_context
from volcanic.storage.callers import load
from volcanic.storage.layout import StateLayout, WorkspaceLayout
from volcanic.storage.safe_read import Unreadable, read_file

LOCK_SECONDS = 5.0
"""How long a start waits for the service before it to let go of a folder."""

DEMO = "demo"
_EVERY_ADDRESS = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - compared with, not bound to
_SCRIPT_BYTES = 64 * 1024 * 1024
_SOCKET_PATH_BYTES = 107 - len("/agents-000.sock")


class StartError(Exception):
    """The service cannot start. The text is one line that says what to do; the exit status is 2."""


@attrs.frozen
class Prepared:
    """What a start found and made. `locks` are open descriptors; they are held until the last process ends."""

    settings: Settings
    layouts: tuple[WorkspaceLayout, ...]
    model: Model
    state: StateLayout
    locks: tuple[int, ...]
    hints: tuple[str, ...]
    """Lines for the person who started it (how to call, or how to add a caller)."""


def prepare(settings: Settings) -> Prepared:
    """Check and make what every process of the service will rely on.

    Raises:
        StartError: something says no.
    """
    service = settings.service
    if not service.workspaces:
        raise StartError("no workspace: name the folder to serve with --workspace DIR")
    model = load_model(service)
    _check_certificate(service)
    layouts = tuple(WorkspaceLayout(path) for path in dict.fromkeys(service.workspaces))
    for layout in layouts:
        _make(layout.root, layout.create)
    state = _make_state(service.state_dir)
    # The workspaces first: another state folder would not help against a service that has the workspace.
    locks = [
        _lock(layout.lock, f"the workspace {layout.root} is served by another service: stop it first")
        for layout in layouts
    ]
    taken = f"the state folder {state.root} is in use by another service: set VOLCANIC_STATE to another one"
    locks.append(_lock(state.lock, taken))
    return Prepared(settings, layouts, model, state, tuple(locks), _hints(settings, layouts))


def load_model(service: ServiceSettings) -> Model:
    """Return the model the settings name.

    Raises:
        StartError: none is named, or its script cannot be read.
    """
    if service.model:
        provider = service.model.partition(":")[0]
        raise StartError(
            f"the model provider {provider!r} is not known: this version has only the scripted model, "
            "--faux or --faux-script FILE"
        )
    if not service.faux:
        raise StartError(
            "no model: name one with --model PROVIDER:NAME; this version has only the scripted model, "
            "--faux or --faux-script FILE"
        )
    if not service.faux_script:
        return echo_model()
    data = read_file(service.faux_script, _SCRIPT_BYTES)
    if isinstance(data, Unreadable):
        raise StartError(f"the faux script {service.faux_script} {data}")
    try:
        return scripted_model(data)
    except ScriptError as error:
        raise StartError(f"the faux script {service.faux_script}: {error}") from None


def _check_certificate(service: ServiceSettings) -> None:
    if not service.certfile:
        return
    try:
        server_context(service.certfile, service.keyfile)
    except CertificateError as error:
        raise StartError(str(error)) from None


def _make(path: str, make: Callable[[], None]) -> None:
    try:
        make()
        for folder in (".volcanic", ".volcanic/a2a/tasks", ".volcanic/sessions"):
            probe = Path(path, folder, f"probe-{secrets.token_hex(4)}")
            probe.touch()
            probe.unlink()
    except OSError as error:
        place = f": {error.filename}" if error.filename and str(error.filename) != path else ""
        raise StartError(f"the workspace {path} cannot be written{place}: {error.strerror}") from None


def _make_state(path: str) -> StateLayout:
    """Make the state folder, the user's alone, and return its layout."""
    if len(os.fsencode(path)) > _SOCKET_PATH_BYTES:
        raise StartError(f"the path of the state folder {path} is too long for sockets: set VOLCANIC_STATE to another")
    state = StateLayout(path)
    try:
        state.create()
    except OSError as error:
        raise StartError(f"the state folder {path} cannot be written: {error.strerror}") from None
    return state


def _lock(path: str, taken: str) -> int:
    """Take the lock of a folder and return the descriptor that holds it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartError(f"the lock {path} cannot be opened: {error.strerror}") from None
    deadline = time.monotonic() + LOCK_SECONDS
    said = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except OSError as error:
            if error.errno not in {errno.EWOULDBLOCK, errno.EACCES}:
                raise StartError(f"{path} cannot be locked: {error.strerror}") from None
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise StartError(taken) from None
        if not said and is_terminal() and time.monotonic() > deadline - LOCK_SECONDS + 1.0:
            said = True
            print(f"volcanic: waiting for another service to let go of {path}", file=sys.stderr)  # noqa: T201 - a person
        time.sleep(0.05)


def _hints(settings: Settings, layouts: tuple[WorkspaceLayout, ...]) -> tuple[str, ...]:
    if settings.service.demo:
        try:
            return tuple(line for layout in layouts for line in _demo(settings.service, layout))
        except OSError as error:
            raise StartError(f"the demo caller cannot be made: {error.filename}: {error.strerror}") from None
    callers = [load(layout) for layout in layouts]
    if any(each.entries for each in callers):
        return ()
    if warnings := tuple(warning for each in callers for warning in each.warnings):
        return warnings
    return (
        (
            f'no caller yet: put [{{"name": "NAME", "key": "KEY"}}] into {layouts[0].callers} '
            "(make a key with: openssl rand -hex 32), or start with --demo"
        ),
    )


def _demo(service: ServiceSettings, layout: WorkspaceLayout) -> tuple[str, ...]:
    """Make the caller `demo` where there is no callers.json, and return the line that calls as it."""
    if not Path(layout.callers).exists():
        entry = [{"name": DEMO, "key": f"k_{secrets.token_hex(24)}", "mode": "isolated", "note": "made by --demo"}]
        temporary = f"{layout.callers}.tmp-{secrets.token_hex(4)}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(entry), indent=2) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            # A link, unlike a rename, never replaces a file that somebody made meanwhile.
            with contextlib.suppress(FileExistsError):
                os.link(temporary, layout.callers)
        finally:
            Path(temporary).unlink()
    callers = load(layout)
    demo = next((entry for entry in callers.entries if entry.name == DEMO), None)
    if demo is None and callers.warnings:
        return callers.warnings
    if demo is None:
        return (f"{layout.callers} is there already and has no caller named {DEMO}: use one of its keys",)
    scheme = "https" if service.certfile else "http"
    host = "127.0.0.1" if service.host in _EVERY_ADDRESS else service.host
    body = (
        '{"jsonrpc":"2.0","id":"1","method":"SendMessage","params":{"message":'
        '{"role":"ROLE_USER","messageId":"m1","parts":[{"text":"hi"}]}}}'
    )
    return (
        "try it:",
        (
            f"curl -sS -H 'X-API-Key: {demo.key}' -H 'Content-Type: application/json' "
            f"{scheme}://{host}:{{port}}/a2a -d '{body}'"
        ),
    )
