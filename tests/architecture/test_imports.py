"""The layers, and who may know which library."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib

import pytest

from tests.architecture.project import PACKAGES, ROOT, imports_of, is_within, module_name, python_files


def _contracts():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    return {contract["id"]: contract for contract in settings["contracts"]}


def _layers():
    return [name.strip("() ") for line in _contracts()["layers"]["layers"] for name in line.split("|")]


def test_every_import_contract_is_kept(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", "import sys; from importlinter.cli import lint_imports_command as c; sys.exit(c())"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "GRIMP_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "0 broken" in run.stdout


def test_every_module_of_volcanic_and_actors_has_a_layer():
    layers = _layers()
    homeless = [
        name
        for name in map(module_name, python_files("volcanic", "actors"))
        if name != "volcanic" and not is_within(name, *layers)
    ]
    assert homeless == []


@pytest.mark.parametrize(
    ("library", "rooms"),
    [
        ("hypercorn", ("volcanic.server", "volcanic.hosts", "volcanic.supervisor", "volcanic.cli")),
        ("httpx", ("volcanic.net",)),
        ("httpcore", ("volcanic.net",)),
    ],
)
def test_a_library_is_imported_in_its_room_only(library, rooms):
    elsewhere = [
        f"{module_name(path)} imports {name}"
        for path in python_files(*PACKAGES)
        for name in imports_of(path)
        if is_within(name, library) and not is_within(module_name(path), *rooms)
    ]
    assert elsewhere == []


def test_the_packages_import_nothing_of_the_tests_or_benchmarks():
    wrong = [
        f"{module_name(path)} imports {name}"
        for path in python_files(*PACKAGES)
        for name in imports_of(path)
        if is_within(name, "tests", "bench", "pytest", "hypothesis")
    ]
    assert wrong == []


def test_no_module_imports_a_private_name_of_another_package():
    wrong = []
    for path in python_files(*PACKAGES):
        own = module_name(path).rpartition(".")[0] or module_name(path)
        wrong += [
            f"{module_name(path)} imports {name}"
            for name in imports_of(path)
            if is_within(name, *PACKAGES)
            and any(part.startswith("_") for part in name.split("."))
            and not is_within(name, own)
        ]
    assert wrong == []
