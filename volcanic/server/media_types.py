"""Which media types a part may have (`A2A__InputModes`)."""

from __future__ import annotations

from collections.abc import Iterable


class MediaTypes:
    """A set of accepted types: exact ones, `type/*` and `*/*`; case and parameters do not count (RFC 9110 §8.3.1)."""

    def __init__(self, modes: Iterable[str]) -> None:
        named = [_bare(mode) for mode in modes]
        self._all = "*/*" in named
        self._exact = frozenset(mode for mode in named if not mode.endswith("/*"))
        self._families = frozenset(mode.removesuffix("*") for mode in named if mode.endswith("/*"))

    def accept(self, media_type: str) -> bool:
        """Whether a part of this type may reach the model."""
        bare = _bare(media_type)
        family, slash, subtype = bare.partition("/")
        if not (family and slash and subtype):
            return False
        return self._all or bare in self._exact or f"{family}/" in self._families


def _bare(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()
