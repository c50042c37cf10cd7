"""What the faux model of the shared service does: one word at the start of a message picks a behaviour."""

from __future__ import annotations

from typing import Any

Step = dict[str, Any]

CHUNKS = 1500
"""How many artifact updates `many` makes."""

WORK_SECONDS = {"quick": 0.2, "brief": 0.5, "steady": 2, "long": 60}
"""Messages beginning with one of these are answered with `done: ` and their own text after so many seconds."""

LEAK = "no such file: /srv/secrets/key-k_0123456789abcdef"
"""The text of an unexpected exception; none of it may reach a caller."""


def _work() -> list[Step]:
    return [
        {"textPrefix": name, "steps": [{"delay": seconds}, {"text": "done: {text}"}]}
        for name, seconds in WORK_SECONDS.items()
    ]


def _ask(question: str) -> list[Step]:
    return [{"end": "input-required", "text": question}]


def _artifact(part: Step, **members: Any) -> Step:
    return {"artifact": {"artifactId": members.pop("artifact_id", "extra"), "parts": [part], **members}}


RULES: list[Step] = [
    *_work(),
    {"textPrefix": "ask", "turns": "ask"},
    {"textPrefix": "tool-ask", "turns": "tool-ask"},
    {"textPrefix": "slow-ask", "turns": "slow-ask"},
    {"textPrefix": "keep-asking", "turns": "keep-asking"},
    {"textPrefix": "login", "turns": "login"},
    {"textPrefix": "tool-login", "steps": [{"tool": "request_auth", "arguments": {"text": "log in first"}}]},
    {"textPrefix": "decline", "steps": [{"tool": "decline", "arguments": {"reason": "not for me"}}]},
    {"textPrefix": "reject", "steps": [{"end": "rejected", "text": "not for me"}]},
    {"textPrefix": "give-up", "steps": [{"text": "tried"}, {"end": "failed", "text": "could not do it"}]},
    {"textPrefix": "end-canceled", "steps": [{"end": "canceled", "text": "never mind"}]},
    {"textPrefix": "explode-late", "steps": [{"text": "half a thought"}, {"raise": LEAK}]},
    {"textPrefix": "explode", "steps": [{"raise": LEAK}]},
    {"textPrefix": "no-provider", "steps": [{"error": "the provider refused the request", "retryable": False}]},
    {"textPrefix": "cut-short", "steps": [{"text": "a long answ"}, {"stop": "length"}]},
    {"textPrefix": "direct", "steps": [{"message": "a plain reply"}]},
    {"textPrefix": "think", "steps": [{"thinking": "do not show this"}, {"text": "shown"}]},
    {"textPrefix": "redraft", "steps": [{"text": "a draft"}, {"tool": "no_such_tool", "arguments": {}}, {"text": "the final text"}]},
    {"textPrefix": "phases", "steps": [{"status": "looking"}, {"delay": 0.1}, {"text": "first half, "}, {"delay": 0.1}, {"text": "second half"}]},
    {"textPrefix": "count", "steps": [{"text": "run {n}"}]},
    {"textPrefix": "files", "steps": [
        _artifact({"data": {"key": "value", "count": 42}}, artifact_id="facts", name="facts"),
        _artifact({"rawText": "file content", "filename": "output.txt", "mediaType": "text/plain"}, artifact_id="file"),
        _artifact({"url": "https://example.com/output.txt", "filename": "output.txt", "mediaType": "text/plain"}, artifact_id="link"),
        {"text": "three artifacts"},
    ]},
    {"textPrefix": "append-first", "steps": [{"artifact": {"artifactId": "late", "parts": [{"text": "kept"}], "append": True, "lastChunk": True}}]},
    {"textPrefix": "many", "steps": [
        *({"artifact": {"artifactId": "many", "parts": [{"text": f"{n};"}], "append": n > 0}} for n in range(CHUNKS)),
        {"text": "all sent"},
    ]},
    {"textRegex": "^repeat (?P<what>.+)$", "steps": [{"delay": 0.3}, {"text": "{what}"}]},
    {"messageIdPrefix": "steer-by-id", "steps": [{"text": "steered"}]},
]  # fmt: skip

TURNS: dict[str, list[list[Step]]] = {
    "ask": [_ask("which day?"), [{"text": "booked {text}"}]],
    "tool-ask": [
        [{"tool": "request_input", "arguments": {"question": "which day?"}}],
        [{"text": "booked {text}"}],
    ],
    "slow-ask": [_ask("which day?"), [{"delay": 0.5}, {"text": "booked {text}"}]],
    "keep-asking": [_ask("which day?"), _ask("which hour?"), [{"text": "booked {text}"}]],
    "login": [[{"end": "auth-required", "text": "log in first"}], [{"text": "welcome"}]],
}

SCRIPT: dict[str, Any] = {"rules": RULES, "turns": TURNS, "chunk": 12, "tokensPerSecond": None}
