# heads.py -- every source file says in line 1 what it is, and its licence in line 2.
# SPDX-License-Identifier: Apache-2.0
import os
import re
import subprocess
import sys

LICENCE = "SPDX-License-Identifier: Apache-2.0"
# ending: (line 1, line 2); a line `#!` may stand before them
FORMS = {
    **dict.fromkeys(("c", "h", "S", "def"), ("/* {} -- .+", f" * {LICENCE}")),
    **dict.fromkeys(("py", "sh"), ("# {} -- .+", f"# {LICENCE}")),
}


def problem(path):
    form = FORMS.get(path.rsplit(".", 1)[-1])
    if form is None or not os.path.exists(path):
        return None
    with open(path) as file:
        lines = [file.readline().rstrip("\n") for _ in range(3)]
    if lines[0].startswith("#!"):
        lines.pop(0)
    if not re.match(form[0].replace("*", r"\*", 1).format(re.escape(os.path.basename(path))), lines[0]):
        return f"{path}: line 1 is not `{form[0].format(os.path.basename(path))}`"
    return None if lines[1] == form[1] else f"{path}: the licence is not alone in line 2"


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
    paths = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.splitlines()
    problems = [found for found in map(problem, paths) if found]
    print("\n".join(problems) or f"{sum(path.rsplit('.', 1)[-1] in FORMS for path in paths)} files")
    sys.exit(bool(problems))


main()
