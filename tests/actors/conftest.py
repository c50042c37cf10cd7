"""Slots and wires whose sockets are closed when the test is over."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.actors.kit import Slot, Wire


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
