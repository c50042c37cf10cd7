"""Any jobs at once leave what they would have left one after another."""

from __future__ import annotations

import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from volcanic.storage.disk import Append, Op, Remove, Replace, open_disk

_ops = st.one_of(
    st.builds(Replace, st.sampled_from("abc"), st.binary(max_size=20), st.booleans()),
    st.builds(Append, st.sampled_from("xyz"), st.binary(max_size=20), st.booleans(), st.just(False), st.booleans()),
    st.builds(Remove, st.sampled_from("abcxyz"), st.booleans()),
)


@settings(max_examples=60, deadline=None)
@given(jobs=st.lists(st.lists(_ops, max_size=5), max_size=8))
async def test_whatever_is_submitted_happens_as_if_one_after_another(tmp_path_factory, jobs):
    folder = tmp_path_factory.mktemp("disk")
    expected = {}
    for op in (op for job in jobs for op in job):
        if isinstance(op, Replace):
            expected[op.path] = op.data
        elif isinstance(op, Append):
            expected[op.path] = expected.get(op.path, b"") + op.data
        else:
            expected.pop(op.path, None)
    async with open_disk() as disk, trio.open_nursery() as nursery:
        for job in jobs:
            placed: list[Op] = []
            for op in job:
                path = f"{folder}/{op.path}"
                if isinstance(op, Replace):
                    placed.append(Replace(path, op.data, op.durable))
                elif isinstance(op, Append):
                    placed.append(Append(path, op.data, op.durable, keep_open=op.keep_open))
                else:
                    placed.append(Remove(path, op.durable))
            nursery.start_soon(disk.submit, *placed)
            await trio.testing.wait_all_tasks_blocked()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == expected
