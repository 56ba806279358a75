# exports.py -- libvramguard.so exports what hooks.def has, the loader and exit functions it replaces, its own API, and nothing else.
# SPDX-License-Identifier: Apache-2.0
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import hooks_table

LOADER = {"dlsym", "_exit", "_Exit", "quick_exit"}
# Of the torch that is tested here; other releases spell the integers of the same two functions otherwise.
TORCH = {"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE", "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE"}

library = os.path.join(hooks_table.TOP, hooks_table.BUILD, "libvramguard.so")
if not os.path.exists(library):
    sys.exit(f"{library} is not built")
listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
exports = {line.split()[-1] for line in listed.splitlines()}
wanted = hooks_table.exported_symbols() | LOADER | TORCH
surplus = {name for name in exports - wanted if not re.match(r"vramguard_|_ZN3c1027report(MemoryUsage|OutOfMemory)ToProfilerE", name)}
problems = [f"exported without a row: {name}" for name in sorted(surplus)]
problems += [f"a row, but not exported: {name}" for name in sorted(wanted - exports)]
problems += [f"exported with a version: {name}" for name in sorted(exports) if "@" in name]
print("\n".join(problems) or f"{len(exports)} symbols")
sys.exit(bool(problems))
