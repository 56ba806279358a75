# columns.py -- no line of C is longer than 100 columns. Tables (*.def) are laid out by hand; a text that cannot be broken is left alone.
# SPDX-License-Identifier: Apache-2.0
import os
import re
import subprocess
import sys

COLUMNS = 100
TEXT = re.compile(r'"(?:\\.|[^"\\])*"')


def is_too_long(line):
    """Without what a string literal takes: the formatter breaks those where it can."""
    return len(line) > COLUMNS and len(TEXT.sub('""', line)) > COLUMNS


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
    paths = subprocess.run(["git", "ls-files", "*.c", "*.h"], capture_output=True, text=True, check=True).stdout.splitlines()
    problems = []
    for path in filter(os.path.exists, paths):
        with open(path, encoding="utf-8") as file:
            problems += [f"{path}:{number}: {len(line)} columns" for number, line in enumerate(file.read().split("\n"), 1) if is_too_long(line)]
    print("\n".join(problems) or f"{len(paths)} files")
    sys.exit(bool(problems))


main()
