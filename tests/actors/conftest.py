"""Slots and wires whose sockets are closed when the test is over."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.actors.kit import Slot, Wire, edge


@pytest.fixture
def closing():
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def make_slot(tmp_path, closing):
    def make(script=None, name="slot", **settings):
        slot = Slot(tmp_path / name, script, **settings)
        closing.callback(slot.listener.close)
        return slot

    return make


@pytest.fixture
def make_wire(tmp_path, closing):
    def make(slot):
        wire = Wire(tmp_path, slot.path)
        closing.callback(wire.listener.close)
        return wire

    return make


@pytest.fixture
async def slot(request, make_slot):
    """A living slot with the module's SCRIPT and, where it has them, SETTINGS."""
    slot = make_slot(request.module.SCRIPT, **getattr(request.module, "SETTINGS", {}))
    async with slot.alive():
        yield slot


@pytest.fixture
async def owners(slot):
    """An edge's links to that slot."""
    async with edge(slot.path, files=slot.files) as owners:
        yield owners
