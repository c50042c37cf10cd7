from __future__ import annotations

import pytest

from volcanic.storage.layout import WorkspaceLayout


@pytest.fixture
def layout(tmp_path):
    made = WorkspaceLayout(str(tmp_path / "ws"))
    made.create()
    return made
