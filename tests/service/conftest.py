"""One service shared by the tests that only talk to it, and a factory for those that configure, break or end theirs."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.harness import Service
from tests.service.wire import Caller, JsonRpcCaller, RestCaller

BINDINGS = ("jsonrpc", "rest")


@pytest.fixture(scope="session")
def service_folder() -> Iterator[Callable[[], Path]]:
    """Return a maker of folders whose paths are short enough for the sockets in them."""
    with contextlib.ExitStack() as stack:
        root = Path(tempfile.mkdtemp(prefix="svc-"))
        stack.callback(shutil.rmtree, root)
        numbers = itertools.count()
        yield lambda: root / str(next(numbers))


@pytest.fixture(scope="session")
def shared_service(service_folder: Callable[[], Path]) -> Iterator[Service]:
    """Run the one service of the whole run; at its end it must stop in order, leave nothing and have shown no key."""
    with Service(service_folder(), edges=2, workers=2) as service:
        yield service
        service.assert_no_key_shown()
        service.stop()
        service.assert_no_key_shown()


@pytest.fixture
def service(shared_service: Service) -> Service:
    """Return the shared service, alive."""
    assert shared_service.process is not None
    assert shared_service.process.poll() is None, f"the shared service died\n{shared_service.tail()}"
    return shared_service


@pytest.fixture
def make_service(service_folder: Callable[[], Path]) -> Iterator[Callable[..., Service]]:
    """Return a maker of services that are not yet started; whatever of them still runs at the end is ended."""
    with contextlib.ExitStack() as stack:

        def make(*arguments: str, **options: Any) -> Service:
            made = Service(service_folder(), *arguments, **options)
            stack.callback(made.kill)
            return made

        yield make


@pytest.fixture
def rpc(service: Service) -> JsonRpcCaller:
    """Alice on the JSON-RPC binding of the shared service."""
    return service.rpc()


@pytest.fixture
def rest(service: Service) -> RestCaller:
    """Alice on the REST binding of the shared service."""
    return service.rest()


@pytest.fixture(params=BINDINGS)
def alice(request: pytest.FixtureRequest, service: Service) -> Caller:
    """Alice, once on each binding."""
    return caller_of(service, request.param, "alice")


@pytest.fixture
def bob(alice: Caller, service: Service) -> Caller:
    """Bob, on the binding that Alice speaks."""
    return caller_of(service, alice.name, "bob")


def caller_of(service: Service, binding: str, name: str) -> Caller:
    """Return a caller of a service on a binding."""
    return service.rpc(name) if binding == "jsonrpc" else service.rest(name)
