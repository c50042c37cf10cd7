"""Every setting is in the README, and no two settings share a name."""

from __future__ import annotations

import re

import pytest

from tests.architecture.project import ROOT
from volcanic.config import SETTINGS


def _readme():
    return (ROOT / "README.md").read_text()


def _mentions(text, name):
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w])", text) is not None


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_is_in_the_readme(setting):
    readme = _readme()
    names = [name for name in (setting.env, setting.flag) if name]
    assert names, f"{setting.name} can be set neither by environment nor by flag"
    missing = [name for name in names if not _mentions(readme, name)]
    assert missing == []


@pytest.mark.parametrize("field", ["name", "env", "flag"])
def test_no_two_settings_share_a_name(field):
    names = [str(getattr(setting, field)).lower() for setting in SETTINGS if getattr(setting, field)]
    assert sorted(names) == sorted(set(names))


def test_every_setting_says_what_it_means():
    assert [setting.name for setting in SETTINGS if not setting.meaning.strip()] == []
