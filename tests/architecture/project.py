"""What the architecture tests read: the tracked files and the parsed modules of the three packages."""

from __future__ import annotations

import ast
import functools
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("volcanic", "actors", "supervisors")


@functools.cache
def tracked_files() -> tuple[Path, ...]:
    """Return what git tracks or would track; outside a checkout (a source archive) every file that is no product."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode == 0:
        names = [ROOT / name.decode() for name in listing.stdout.split(b"\0") if name]
    else:
        names = [path for path in ROOT.rglob("*") if not any(part.startswith(".") for part in path.parts)]
    return tuple(sorted(path for path in names if path.is_file()))


def python_files(*folders: str) -> tuple[Path, ...]:
    """Return the tracked Python files beneath the folders (all of them when none is named)."""
    return tuple(
        path
        for path in tracked_files()
        if path.suffix == ".py" and (not folders or path.relative_to(ROOT).parts[0] in folders)
    )


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """Return the parsed module."""
    return ast.parse(path.read_text(), filename=str(path))


def module_name(path: Path) -> str:
    """Return the dotted name of a module of one of the packages."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> Iterator[str]:
    """Yield the dotted name of every module that is imported, at any depth and under TYPE_CHECKING too."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def is_within(name: str, *packages: str) -> bool:
    """Return whether a dotted name is one of the packages or beneath one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)
