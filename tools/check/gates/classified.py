# classified.py -- every export of the CUDA 13.0 driver has a row in hooks.def: hooked, noted, a look-up, or left alone with a reason.
# SPDX-License-Identifier: Apache-2.0
#
# The exports are the committed list ../cuda13_exports.txt, so that this needs no toolkit. Where a toolkit is installed the list is also compared with
# its stub library, in both directions: a newer toolkit's functions need rows (and the list, its names) before they go unseen.
# WHOLE: what makes, shows or ends something needs a row of its own: a family's one reason is not enough there.
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
import hooks_table

WHOLE = re.compile(r"(Alloc|Create|Destroy|Import|Open|(?<!Tensor)Map|Bind|Free|Retain|Release|Reset|Load|Unload|Instantiate|Pool|Multicast|Trim|Capture$)"
                   r"(?![a-z])")


def main():
    with open(os.path.join(HERE, "../cuda13_exports.txt")) as file:
        listed = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    table = [row for row in hooks_table.symbols() if not row.name.startswith("cuda")]
    own = {row.name for row in table if not row.family}
    families = [row.name for row in table if row.family]
    problems, by_family = [], 0
    for name in listed:
        family = next((beginning for beginning in families if name.startswith(beginning)), None)
        if name in own:
            continue
        if not family:
            problems.append(f"no row: {name}")
        elif WHOLE.search(name):
            problems.append(f"only the family {family}* speaks for it: {name}")
        by_family += 1
    problems += [f"the beginning of no name: {family}" for family in families if not any(name.startswith(family) for name in listed)]
    problems += [f"cuda13_exports.txt: not sorted, or twice: {b}" for a, b in zip(listed, listed[1:]) if a >= b]
    said = "no toolkit's stub library here"
    if stub := hooks_table.stub_library():
        exports = hooks_table.exports_of(stub)
        problems += [f"{stub} has it, cuda13_exports.txt does not: {name}" for name in sorted(exports - set(listed))]
        problems += [f"cuda13_exports.txt has it, {stub} does not: {name}" for name in sorted(set(listed) - exports)]
        said = f"equal to {stub}"
    print("\n".join(problems) or f"{len(listed)} exports: {len(listed) - by_family} with rows of their own, {by_family} by family; {said}")
    sys.exit(bool(problems))


main()
