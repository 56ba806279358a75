# steps.py -- walks a program from step to step (steps.h): at each, the report of the living process and the simulation's books.
# SPDX-License-Identifier: Apache-2.0
import json
import os
from dataclasses import dataclass, field

import guarded


@dataclass
class Walk:
    lines: list = field(default_factory=list)
    report: dict = field(default_factory=dict)  # by step
    books: dict = field(default_factory=dict)
    stderr: str = ""


def report_now(directory):
    [record] = guarded.records(directory)
    return guarded.report_of(record, "--now")


def by_kind(report):
    """Live bytes by kind, of all devices and of what is on none; kinds without a live byte are left out."""
    sums = {}
    for device in report["devices"]:
        for kind, live in device["process"]["by_kind"].items():
            sums[kind] = sums.get(kind, 0) + live
    for site in report["sites"]:
        if site["device"] is None and site["layer"] == "driver":
            sums[site["kind"]] = sums.get(site["kind"], 0) + site["live_bytes"]
    return {kind: live for kind, live in sums.items() if live}


def by_own_count(walked):
    """What a program's `live` lines say, by step."""
    names, live, found = iter(walked.report), None, {}
    for line in walked.lines:
        if line.startswith("live "):
            live = json.loads(line[5:])
        elif line.startswith("step "):
            found[next(names)] = live
    return found


def walk(command, directory, status=0, **options):
    """Each program has a guard that looks at a device again after every millisecond."""
    books = os.path.join(directory, "books")
    walked = Walk()
    options = {"VRAMGUARD_SAMPLE": "1ms", "VGSIM_ACCOUNT": books, **options}
    with guarded.start(command, directory, **options) as process:
        for line in process.stdout:
            walked.lines.append(line.rstrip("\n"))
            if line.startswith("step "):
                name = line.split(None, 1)[1].strip()
                walked.report[name] = report_now(directory) if options.get("guard", True) else None
                walked.books[name] = guarded.account(books) if os.path.exists(books) else None  # None: a real device
                process.stdin.write("\n")
                process.stdin.flush()
        walked.stderr = process.stderr.read()
    assert process.returncode == status, walked.stderr
    return walked
