"""Runs through the Owner API: what is stored, what is answered, and who is told."""

from __future__ import annotations

from tests.actors.kit import decoded, edge, send


async def test_a_context_remembers_after_its_session_was_evicted(make_slot):
    slot = make_slot({"rules": [{"textPrefix": "count", "steps": [{"text": "run {n}"}]}]}, idle_seconds=0.05)
    async with slot.alive() as contexts, edge(slot.path) as owners:
        for number in range(1, 4):
            task = decoded(await owners.send_message(send(slot, "count", context_id="kept"), 10))["task"]
            assert task["artifacts"][0]["parts"] == [{"text": f"run {number}"}]
            contexts.sessions.evict(float("inf"))
            assert len(contexts.sessions) == 0
