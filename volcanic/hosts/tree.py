"""The supervision tree as data: read it here as a whole (design: "Processes and the tree").

    root                   one_for_one; a process that dies after it was ready is always replaced
    ├─ edge-0 .. edge-E-1      processes: HTTP in, no durable state
    ├─ agents-0 .. agents-N-1  processes, the slots; inside each, rest_for_one 5/30 over:
    │  ├─ live                 settles what the slot's predecessor left, before anything is served
    │  ├─ contexts             dynamic: the sessions; a session's run and its subscriptions are the session's
    │  ├─ sweeper              evicts idle sessions
    │  └─ owner                the Owner API: edges' connections
    └─ admin                   the admin socket

A stop goes from the right: the slots settle their runs first, so that the edges can still tell their clients.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import attrs
import msgspec

from supervisors.child_spec import PERMANENT, TRANSIENT, ChildSpec, StartFn
from supervisors.dynamic import DynamicSupervisor
from supervisors.intensity import Intensity
from supervisors.process_child import ProcessChild
from supervisors.strategy import ONE_FOR_ONE, REST_FOR_ONE
from supervisors.supervisor import Supervisor
from volcanic.config import ServiceSettings
from volcanic.hosts.logs import log_child

DRAIN = b"drain"
"""Root's word to a worker, ahead of the stop that comes child by child: take nothing new, let what runs end."""

TREE = b"tree"
"""Root's question to a worker: what lives inside it."""

ROOT_INTENSITY = Intensity(5, 60.0)
"""Of a process: deaths before it was ready. Over it the service gives up, with the reason."""

SLOT_INTENSITY = Intensity(5, 30.0)
"""Of a slot's parts, together: one restart per six seconds in the long run; over it the process is replaced."""


def slot_name(number: int) -> str:
    """Return the name of a slot."""
    return f"agents-{number}"


class Place(msgspec.Struct):
    """Where a worker stands: the service's start, how many slots there are, and which one this is (-1: an edge)."""

    boot: str
    slots: int
    slot: int = -1


@attrs.frozen
class Shape:
    """How many processes of each kind."""

    edges: int
    slots: int


def shape_for(service: ServiceSettings) -> Shape:
    """Return how many edges and slots to run: as set, else by the number of processors this process may use."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Shape(edges=service.edges or max(1, processors // 2), slots=service.workers or max(2, processors // 2))


def root_supervisor(edges: Sequence[ProcessChild], slots: Sequence[ProcessChild], admin: StartFn) -> Supervisor:
    """Return the root of the tree."""
    processes = [child.spec() for child in (*edges, *slots)]
    return Supervisor(
        "root",
        [*processes, ChildSpec("admin", admin, restart=PERMANENT)],
        ONE_FOR_ONE,
        ROOT_INTENSITY,
        on_event=log_child,
    )


def slot_supervisor(*, live: StartFn, contexts: DynamicSupervisor, sweeper: StartFn, owner: StartFn) -> Supervisor:
    """Return the tree inside a slot. What stands to the right relies on what stands to the left."""
    return Supervisor(
        "slot",
        [
            ChildSpec("live", live, restart=PERMANENT),
            contexts.as_child(),
            ChildSpec("sweeper", sweeper, restart=PERMANENT),
            ChildSpec("owner", owner, restart=PERMANENT),
        ],
        REST_FOR_ONE,
        SLOT_INTENSITY,
        on_event=log_child,
    )


def edge_supervisor(links: Mapping[str, StartFn], http: StartFn) -> Supervisor:
    """Return the tree inside an edge: a link to each slot, and the listener. The listener ends only when drained."""
    children = [ChildSpec(name, link, restart=PERMANENT) for name, link in links.items()]
    children.append(ChildSpec("http", http, restart=TRANSIENT))
    return Supervisor("edge", children, ONE_FOR_ONE, SLOT_INTENSITY, on_event=log_child)
