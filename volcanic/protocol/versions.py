"""Protocol version negotiation (spec §3.6.2; design: "Request without `A2A-Version`").

Where the header and the query parameter say nothing, the method's name picks the dialect. Patch digits do not count.
"""

from __future__ import annotations

import re
from typing import Final

from volcanic.protocol.errors import A2AError, ErrorKind

HEADER: Final = "A2A-Version"
"""The name of the header and of the query parameter."""

SUPPORTED: Final = ("1.0",)

_FORM: Final = re.compile(r"((?:0|[1-9][0-9]{0,5})\.(?:0|[1-9][0-9]{0,5}))(?:\.[0-9]{1,6})?")


def check(header: str | None, query: str | None) -> None:
    """Refuse a request that names a version not served here; the header wins over the query parameter.

    Raises:
        A2AError: VERSION_NOT_SUPPORTED.
    """
    named = (header or "").strip() or (query or "").strip()
    if not named:
        return
    match = _FORM.fullmatch(named)
    if match is None or match[1] not in SUPPORTED:
        supported = ", ".join(SUPPORTED)
        raise A2AError(ErrorKind.VERSION_NOT_SUPPORTED, f"The A2A version is not supported; supported: {supported}")
