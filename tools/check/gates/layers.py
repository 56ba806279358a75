# layers.py -- who may include whom, and what core/ may not know.
# SPDX-License-Identifier: Apache-2.0
import glob
import os
import re
import sys

LIBC = re.compile(r"(assert|ctype|errno|fcntl|float|inttypes|limits|locale|math|poll|pthread|sched|signal|std\w+|string|strings|"
                  r"time|unistd|sys/\w+|linux/\w+)\.h$")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
KNOWS = re.compile(r"\b(dlopen|dlsym|dlvsym|secure_getenv|getenv|(?:cu|cuda|nvml)[A-Z]\w*|CU(?:result|context|stream|deviceptr)|Py[A-Z_]\w*)\b")


def may_include(path, mark, name):
    folder = path.split("/")[0]
    if mark == "<":
        return folder != "core" or bool(LIBC.match(name)) or name in ("uthash.h", "utlist.h")
    if folder == "core":
        return name.startswith("core/")
    if folder == "tools":
        return name.startswith(("core/", "tools/")) or name == "interpose/hooks.def"
    return name.startswith(("core/", "interpose/")) and not name.startswith("core/analysis/")


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def code_only(text):
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def main():
    problems, seen = [], 0
    for path in sorted(name for folder in ("core", "interpose", "tools") for ending in ("c", "h", "def", "S")
                       for name in glob.glob(f"{folder}/**/*.{ending}", recursive=True)):
        if path.startswith("tools/check/"):
            continue
        seen += 1
        with open(path) as file:
            text = file.read()
        for found in INCLUDE.finditer(text):
            if not may_include(path, found[1], found[2]):
                problems.append(f"{path}:{text[:found.start()].count(chr(10)) + 1}: may not include {found[2]}")
        if path.startswith("core/"):
            for found in KNOWS.finditer(code_only(text)):
                problems.append(f"{path}:{text[:found.start()].count(chr(10)) + 1}: core/ may not know {found[1]}")
    print("\n".join(problems) or f"{seen} files of core/, interpose/ and tools/")
    sys.exit(bool(problems))


os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
main()
