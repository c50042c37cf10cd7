"""Values of settings that have names of their own."""

from __future__ import annotations

import enum


class CancelOnDisconnect(enum.StrEnum):
    """Which runs end when the client that asked for them drops its connection."""

    BLOCKING = "blocking"
    ALWAYS = "always"
    NEVER = "never"


DEFAULT_INPUT_MODES = (
    "text/*",
    "image/*",
    "audio/*",
    "video/*",
    "application/octet-stream",
    "application/json",
    "application/pdf",
    "application/xml",
    "application/yaml",
    "application/zip",
    "application/gzip",
    "application/x-tar",
    "application/rtf",
    "application/msword",
    "application/vnd.ms-excel",
    "application/vnd.ms-powerpoint",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "application/vnd.oasis.opendocument.text",
    "application/vnd.oasis.opendocument.spreadsheet",
    "application/vnd.oasis.opendocument.presentation",
)
