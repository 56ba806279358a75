# steps.py -- walks a program from step to step (steps.h): at each, the report of the living process and the simulation's books.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import threading
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


class Walker:
    """A program that waits at its steps. Its guard looks at a device again after every millisecond."""

    def __init__(self, command, directory, **options):
        self.directory, self.walked = directory, Walk()
        self.books = os.path.join(directory, "books")
        self.is_guarded = options.get("guard", True)
        options = {"VRAMGUARD_SAMPLE": "1ms", "VGSIM_ACCOUNT": self.books, **options}
        self.process = guarded.start(command, directory, **options)
        self.watchdog = threading.Timer(120, self.process.kill)  # one that hangs is killed
        self.watchdog.daemon = True
        self.watchdog.start()

    def to_step(self):
        """Goes on to the next step; its name, or None where the program has ended."""
        if self.walked.report:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        for line in self.process.stdout:
            self.walked.lines.append(line.rstrip("\n"))
            if line.startswith("step "):
                name = line.split(None, 1)[1].strip()
                self.look(name)
                return name
        return None

    def look(self, name):
        self.walked.report[name] = report_now(self.directory) if self.is_guarded else None
        self.walked.books[name] = guarded.account(self.books) if os.path.exists(self.books) else None  # None: a real device

    def end(self, status=0):
        while self.to_step():
            pass
        self.walked.stderr = self.process.stderr.read()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()
        self.watchdog.cancel()
        assert self.process.wait(60) == status, self.walked.stderr
        return self.walked


def walk(command, directory, **options):
    return Walker(command, directory, **options).end()
