# hooks_table.py -- the rows of interpose/hooks.def for the gates, and where a toolkit's headers and stubs are.
# SPDX-License-Identifier: Apache-2.0
import collections
import glob
import os
import re
import shutil
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("BUILD", "build")
MACROS = ("HOOK", "HOOK_STREAM", "NOTE", "NOTE_STREAM", "RUNTIME", "RUNTIME_STREAM", "LOOKUP", "IGNORE", "IGNORE_STREAM", "IGNORE_FAMILY")

# One function of a row. asked, since, ps: what PFN_<asked>_v<since><ps> is made of, None where there is none such. family: of all names that begin so.
Symbol = collections.namedtuple("Symbol", "role name asked since ps result parameters reason family")


def read(path):
    """The text of a C file without comments and preprocessor lines."""
    with open(os.path.join(TOP, path)) as file:
        text = re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)
    return re.sub(r"^[ \t]*#[^\n]*", "", text, flags=re.M)


def columns(text):
    """`a, (b, c), "d"` -> its columns; commas inside parentheses and strings do not split."""
    parts, depth, part = [], 0, ""
    for token in re.findall(r'"(?:\\.|[^"\\])*"|.', text, flags=re.S):
        depth += (token in "([{") - (token in ")]}")
        if token == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += token
    return parts + [part.strip()]


def rows():
    """[(macro, [columns])] in the order of the file."""
    text, found = read("interpose/hooks.def"), []
    for match in re.finditer(r"^(%s)\(" % "|".join(MACROS), text, flags=re.M):
        depth, end = 1, match.end()
        while depth:
            depth += (text[end] == "(") - (text[end] == ")")
            end += 1
        found.append((match[1], columns(text[match.end():end - 1])))
    return found


def of_row(macro, column):
    """The functions of one row: a _STREAM row has two."""
    role, _, form = macro.partition("_")
    names = [(column[0], ""), (column[0] + "_ptsz", "_ptsz")] if form == "STREAM" else [(column[0], "")]
    for name, ps in names:
        if role in ("HOOK", "NOTE"):
            asked, since, ps, rest = (column[1], column[2], column[3], column[4:]) if not form else (column[0], column[1], ps, column[2:])
            yield Symbol(role, name, asked, since, ps, "CUresult", rest[2] if role == "HOOK" else rest[1], None, False)
        elif role == "RUNTIME":
            yield Symbol(role, name, None, None, ps, "cudaError_t", column[3], None, False)
        elif role == "LOOKUP":
            yield Symbol(role, name, None, None, ps, column[2], column[3], None, False)
        else:
            yield Symbol(role, name, None, None, ps, None, None, column[1].strip('"'), form == "FAMILY")


def symbols():
    """Every function of the table."""
    return [symbol for macro, column in rows() for symbol in of_row(macro, column)]


def exported_symbols():
    """Every name that the library has to export because of a row."""
    return {symbol.name for symbol in symbols() if symbol.role != "IGNORE"}


def toolkits():
    nvcc = shutil.which("nvcc")
    places = [os.environ.get("CUDA_HOME"), nvcc and os.path.dirname(os.path.dirname(os.path.realpath(nvcc))), "/usr/local/cuda"]
    return [place for place in places if place and os.path.isdir(place)]


def header_folder():
    """Where cuda.h, cudaTypedefs.h and cuda_runtime_api.h lie: a toolkit, else the wheels beside torch; None."""
    places = [os.path.join(place, "include") for place in toolkits()]
    places += sorted(glob.glob(os.path.join(TOP, BUILD, "venv/lib/python*/site-packages/nvidia/cu13/include")))
    for place in places:
        if all(os.path.exists(os.path.join(place, name)) for name in ("cuda.h", "cudaTypedefs.h", "cuda_runtime_api.h")):
            return place
    return None


def stub_library():
    for place in toolkits():
        for name in ("lib64/stubs/libcuda.so", "lib/stubs/libcuda.so", "targets/x86_64-linux/lib/stubs/libcuda.so"):
            if os.path.exists(os.path.join(place, name)):
                return os.path.join(place, name)
    return None


def exports_of(library):
    """The driver's functions that a library exports."""
    listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return {name for name in (line.split()[-1].split("@")[0] for line in listed.splitlines()) if re.match(r"cu[A-Z]", name)}


def skip(reason):
    print(reason)
    sys.exit(77)


def why_no_headers():
    """A reason of skips.txt: torch's wheels would have brought the headers."""
    try:
        with open(os.path.join(TOP, BUILD, "torch.state")) as file:
            state = file.read().strip()
    except OSError:
        state = ""
    return state if state and state != "ready" else "no headers of NVIDIA's here: neither a toolkit nor torch's wheels"
