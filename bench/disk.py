"""What the disk thread costs: submitters that write as SendMessage does, for each way of syncing.

    python bench/disk.py [--folder DIR] [--seconds 2] [--submitters 1,16,64] [--busy 0]

A send is one job of a new task file (not durable) with a live log line and a transcript line, then one job of a
transcript line, the task file again (durable) and a live log line. `--busy` adds that many microseconds of work on the
event loop to each send. Every round writes to a fresh folder, which is left: a file system slows down after mass
deletion.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
import uuid

import trio

from volcanic.storage.disk import Append, Replace, open_disk
from volcanic.storage.filesystem import OsFileSystem

STARTED, FINISHED = b"t" * 1200, b"t" * 1800
LINE, START, END = b"m" * 300 + b"\n", b"s" * 200 + b"\n", b"e" * 60 + b"\n"


class DataSync(OsFileSystem):
    """Syncs files by `fdatasync`."""

    sync = staticmethod(os.fdatasync)


class NoSync(OsFileSystem):
    """Syncs nothing: what the rest costs."""

    @staticmethod
    def sync(_handle):
        pass


WAYS = {
    "no sync": (NoSync, 0),
    "one thread": (OsFileSystem, 0),
    "one thread, fdatasync": (DataSync, 0),
    "1 helper": (OsFileSystem, 1),
    "3 helpers": (OsFileSystem, 3),
    "7 helpers": (OsFileSystem, 7),
    "15 helpers": (OsFileSystem, 15),
    "3 helpers, fdatasync": (DataSync, 3),
}


def _work(microseconds):
    end = time.perf_counter() + microseconds / 1e6
    while time.perf_counter() < end:
        pass


async def _submitter(disk, folder, number, busy, end, seconds):  # noqa: PLR0917
    live, transcript = f"{folder}/live", f"{folder}/sessions/{number}.jsonl"
    while time.perf_counter() < end:
        began = time.perf_counter()
        task = f"{folder}/tasks/{uuid.uuid4()}.json"
        _work(busy / 2)
        await disk.submit(
            Replace(task, STARTED, durable=False), Append(live, START, keep_open=True), Append(transcript, LINE)
        )
        _work(busy / 2)
        await disk.submit(
            Append(transcript, LINE), Replace(task, FINISHED, durable=True), Append(live, END, keep_open=True)
        )
        seconds.append(time.perf_counter() - began)


async def _round(folder, way, submitters, busy, length):
    fs, helpers = WAYS[way]
    root = f"{folder}/{uuid.uuid4().hex}"
    for name in ("tasks", "sessions"):
        await trio.Path(root, name).mkdir(parents=True)
    seconds = []
    async with open_disk(fs(), helpers=helpers) as disk:
        used, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        async with trio.open_nursery() as nursery:
            for number in range(submitters):
                nursery.start_soon(_submitter, disk, root, number, busy, began + length, seconds)
        took = time.perf_counter() - began
        usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu = (usage.ru_utime + usage.ru_stime - used.ru_utime - used.ru_stime) / len(seconds) * 1e6
    seconds.sort()
    middle, worst = (seconds[int(len(seconds) * part)] * 1e3 for part in (0.5, 0.99))
    print(
        f"{submitters:3} submitters, {way:22}: {len(seconds) / took:6.0f} sends/s, {cpu - busy:4.0f} us CPU a send, "
        f"p50 {middle:6.2f} ms, p99 {worst:6.2f} ms, {disk.jobs / disk.batches:5.1f} jobs a batch"
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default="/tmp/disk-bench")  # noqa: S108 - a default of a benchmark
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--submitters", default="1,16,64")
    parser.add_argument("--busy", type=float, default=0)
    parser.add_argument("--ways", default=",".join(WAYS).replace(", ", ";"))
    options = parser.parse_args()
    for submitters in map(int, options.submitters.split(",")):
        for way in options.ways.split(","):
            trio.run(_round, options.folder, way.replace(";", ", "), submitters, options.busy, options.seconds)


if __name__ == "__main__":
    main()
