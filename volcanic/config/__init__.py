"""The settings: what there is, what each means, and how flags, environment, file and defaults make one value.

A flag wins over the environment, the environment over the file, the file over the default.
"""

from __future__ import annotations

from volcanic.config.choices import DEFAULT_INPUT_MODES, CancelOnDisconnect
from volcanic.config.settings import (
    SETTINGS,
    A2ASettings,
    CardSettings,
    LimitSettings,
    ServiceSettings,
    SettingDoc,
    Settings,
)
from volcanic.config.sources import ConfigError, default_state_dir, load

__all__ = [
    "DEFAULT_INPUT_MODES",
    "SETTINGS",
    "A2ASettings",
    "CancelOnDisconnect",
    "CardSettings",
    "ConfigError",
    "LimitSettings",
    "ServiceSettings",
    "SettingDoc",
    "Settings",
    "default_state_dir",
    "load",
]
