# steps.py -- walks a program from step to step (steps.h): at each, the report of the living process and the simulation's books.
# SPDX-License-Identifier: Apache-2.0
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
                walked.books[name] = guarded.account(books)
                process.stdin.write("\n")
                process.stdin.flush()
        walked.stderr = process.stderr.read()
    assert process.returncode == status, walked.stderr
    return walked
