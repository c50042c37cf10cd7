"""The `volcanic` command: looking at a running service through its admin socket."""

from __future__ import annotations

import http.client
import os
import socket
import sys
from collections.abc import Iterator

import click
import msgspec

from supervisors.tree import TreeNode
from volcanic.config import default_state_dir
from volcanic.storage.layout import StateLayout

TIMEOUT_SECONDS = 10.0


class AdminConnection(http.client.HTTPConnection):
    """HTTP over the Unix socket of a service."""

    def __init__(self, path: str) -> None:
        super().__init__("volcanic", timeout=TIMEOUT_SECONDS)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket instead of to a host."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _ask(state_dir: str, path: str) -> bytes:
    admin = StateLayout(state_dir).admin_socket
    connection = AdminConnection(admin)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
    except OSError as error:
        raise click.ClickException(f"no service answers at {admin}: {error.strerror or error}") from None
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise click.ClickException(f"{admin} answered {answer.status}")
    return body


def lines_of(node: TreeNode, lead: str = "", branch: str = "") -> Iterator[str]:
    """Yield the tree as lines of text: id, state, pid, restarts, mailbox depth; only what there is to say."""
    words = [node.id]
    if node.state != "running":
        words.append(f"[{node.state}]")
    if node.pid is not None:
        words.append(f"pid {node.pid}")
    if node.restarts:
        words.append(f"restarts {node.restarts}")
    if node.mailbox:
        words.append(f"mailbox {node.mailbox}")
    yield branch + " ".join(words)
    for number, child in enumerate(node.children, 1):
        last = number == len(node.children)
        yield from lines_of(child, lead + ("   " if last else "│  "), lead + ("└─ " if last else "├─ "))


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Look at a running volcanic service."""


@main.command()
@click.option("--workspace", default="", help="The (first) folder that the service serves.")
@click.option("--state", default="", help="The service's state folder.  [VOLCANIC_STATE]")
@click.option("--json", "as_json", is_flag=True, help="Print the JSON of /admin/tree.")
def tree(workspace: str, state: str, as_json: bool) -> None:  # noqa: FBT001 - click's form of a flag
    """Print the supervision tree: every process, and every live context within it."""
    state = state or os.environ.get("VOLCANIC_STATE", "")
    if not state:
        if not workspace:
            raise click.UsageError("name the service by --workspace DIR or --state DIR")
        state = default_state_dir(os.environ, os.path.abspath(workspace))  # noqa: PTH100 - paths are text here
    body = _ask(state, "/admin/tree")
    if as_json:
        sys.stdout.write(body.decode() + "\n")
        return
    for line in lines_of(msgspec.json.decode(body, type=TreeNode)):
        click.echo(line)


if __name__ == "__main__":
    main()
