import pytest

from tests.supervisors.stage import Stage


@pytest.fixture
def stage():
    return Stage()
