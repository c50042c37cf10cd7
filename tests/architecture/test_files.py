"""What holds for every file: its length, what it must not mention, and that no error is swallowed."""

from __future__ import annotations

import ast
import re

import pytest

from tests.architecture.project import PACKAGES, ROOT, python_files, tracked_files, tree_of

MAX_LINES = 400
MAX_FUNCTION_LINES = 50


def _shown(path):
    return str(path.relative_to(ROOT))


def test_no_python_file_is_longer_than_one_subject():
    long = {_shown(path): lines for path in python_files() if (lines := path.read_text().count("\n")) > MAX_LINES}
    assert long == {}


def test_no_function_of_the_packages_is_longer_than_a_page():
    long = {
        f"{_shown(path)}:{node.lineno} {node.name}": length
        for path in python_files(*PACKAGES)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    }
    assert long == {}


def test_no_tracked_file_names_a_path_of_the_machine_it_was_written_on():
    home = re.compile(rb"(?<![\w./~-])/(?:work|root|Users|home(?!/(?:x|me|you|user)\b))/[\w.-]+")
    found = [
        f"{_shown(path)}: {match.group().decode()}"
        for path in tracked_files()
        for match in home.finditer(path.read_bytes())
    ]
    assert found == []


def _swallows(handler):
    """Return whether a handler catches everything and does nothing about it."""
    broad = handler.type is None or (
        isinstance(handler.type, ast.Name) and handler.type.id in {"Exception", "BaseException"}
    )
    idle = all(
        isinstance(statement, ast.Pass | ast.Continue)
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for statement in handler.body
    )
    return broad and idle


def test_no_broad_except_swallows_its_error():
    found = [
        f"{_shown(path)}:{node.lineno}"
        for path in python_files()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ExceptHandler) and _swallows(node)
    ]
    found += [
        f"{_shown(path)}:{node.lineno}"
        for path in python_files()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith("suppress")
        and any(ast.unparse(argument) in {"Exception", "BaseException"} for argument in node.args)
    ]
    assert found == []


@pytest.mark.parametrize("source", ["try:\n a()\nexcept Exception:\n pass", "try:\n a()\nexcept:\n ..."])
def test_a_swallowed_error_would_be_found(source):
    handlers = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ExceptHandler)]
    assert [_swallows(handler) for handler in handlers] == [True]


def test_every_module_says_what_it_is():
    silent = [_shown(path) for path in python_files(*PACKAGES) if not ast.get_docstring(tree_of(path))]
    assert silent == []
