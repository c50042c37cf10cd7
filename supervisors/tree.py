"""The supervision tree as data: what `describe()` of a supervisor answers and `/admin/tree` prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

Kind = Literal["worker", "supervisor"]
State = Literal["starting", "running", "stopping", "restarting", "stopped"]


class TreeNode(msgspec.Struct, omit_defaults=False, kw_only=True):
    """One child (or the supervisor asked) at the moment of asking; a snapshot, the receiver may change it.

    `restarting` waits for its next attempt; `stopped` keeps its place in the tree and may be started again.
    `incarnation` grows with every start of this id and never repeats; `restarts` counts starts after the first since
    the supervisor itself last started. `mailbox` is a depth in messages, None where there is no mailbox.
    """

    id: str
    kind: Kind
    state: State
    restarts: int = 0
    incarnation: int = 0
    mailbox: int | None = None
    pid: int | None = None
    children: list[TreeNode] = []


Describer = Callable[[], TreeNode]
"""What a child attaches to its spec to add to its node: `mailbox`, `pid` and `children` of the answer are used."""


def adopt(node: TreeNode, describer: Describer | None) -> TreeNode:
    """Complete a parent's view of a child with what the child says of itself; identity and state stay the parent's."""
    if describer is not None:
        own = describer()
        node.mailbox = own.mailbox
        node.pid = own.pid
        node.children = own.children
    return node
