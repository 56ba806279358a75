# driver_symbols.py -- every driver symbol that hooks.def names is an export of the driver, by a toolkit's stub library, else by what cuda.h of torch's wheels declares.
# SPDX-License-Identifier: Apache-2.0
#
# FENCES: symbols that only older or newer drivers than that toolkit's export, each with the versions that do.
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import hooks_table

FENCES = {}

stub, headers = hooks_table.stub_library(), hooks_table.header_folder()
if stub is not None:
    source = stub
    driver = hooks_table.exports_of(stub)
elif headers is not None:
    source = os.path.join(headers, "cuda.h")
    driver = set()
    for define in (["-D__CUDA_API_VERSION_INTERNAL"], []):  # all versions of old names; the newest version of every name
        expanded = subprocess.run(["gcc", "-E", *define, source], capture_output=True, text=True, check=True).stdout
        driver |= set(re.findall(r"\bCUresult\s+(cu[A-Z]\w*)\s*\(", expanded))
else:
    hooks_table.skip(hooks_table.why_no_headers())
rows = [row for row in hooks_table.symbols() if not row.name.startswith("cuda")]
names = [row.name for row in rows if not row.family]
problems = [f"not in {source}: {name}" for name in names if name not in driver and name not in FENCES]
problems += [f"two rows: {name}" for name in sorted({name for name in names if names.count(name) > 1})]
problems += [f"IGNORE without a reason: {row.name}" for row in rows if row.role == "IGNORE" and not row.reason]
print("\n".join(problems) or f"{len(names)} driver symbols of {len(driver)}")
sys.exit(bool(problems))
