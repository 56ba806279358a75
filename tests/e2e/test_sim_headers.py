# test_sim_headers.py -- the simulation's CUDA headers say the same as NVIDIA's: values, sizes, offsets, prototypes.
# SPDX-License-Identifier: Apache-2.0
import glob
import os
import re
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OURS = os.path.join(ROOT, "tests/sim/include")


def nvidia_headers():
    wheels = glob.glob(os.path.join(ROOT, "build/venv/lib/python3*/site-packages/nvidia/cu13/include"))
    for folder in ["/usr/local/cuda/include", *wheels]:
        if os.path.exists(os.path.join(folder, "cuda_runtime_api.h")):
            with open(os.path.join(folder, "cuda.h"), encoding="utf-8", errors="replace") as file:
                if re.search(r"#define CUDA_VERSION 130\d\d", file.read()):
                    return folder
    pytest.skip("no PyPI: CUDA 13.0 headers are neither in a toolkit nor in build/venv")


def names_of(header):
    """Enumerators, and (struct, field) pairs, that one of our headers declares."""
    with open(os.path.join(OURS, header), encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    text = re.sub(r"#if CUDART_VERSION < 13000\n.*?#endif\n", "", text, flags=re.S)
    text = re.sub(r"^#.*\n", "", text, flags=re.M)
    constants = []
    for body in re.findall(r"\benum\b[^{;()]*\{(.*?)\}", text, flags=re.S):
        constants += re.findall(r"\b(\w+)\s*=", body)
    fields = []
    for tag, body in re.findall(r"\bstruct (\w+) \{\n(.*?)\n\}", text, flags=re.S):
        while "{" in body:  # nested ones count as one field, from the inside out
            body = re.sub(r"(struct|union) \{[^{}]*\}", "int", body)
        for declaration in body.split(";"):
            for part in declaration.split(","):
                found = re.search(r"(\w+)\s*(\[[^\]]*\])*\s*$", part.strip())
                if found and found.group(1) != "int":  # a union or structure without a name
                    fields.append((tag, found.group(1)))
    return constants, fields


def probe(tmp_path, header, constants, fields, include):
    source = tmp_path / "probe.c"
    lines = [f'printf("{name} %lld\\n", (long long){name});' for name in constants]
    for tag in dict.fromkeys(tag for tag, _ in fields):
        lines.append(f'printf("{tag} %zu\\n", sizeof(struct {tag}));')
    for tag, field in fields:
        lines.append(f'printf("{tag}.{field} %zu\\n", offsetof(struct {tag}, {field}));')
    source.write_text(f"#include <stddef.h>\n#include <stdio.h>\n#include <{header}>\n"
                      "int main(void)\n{\n" + "\n".join(lines) + "\nreturn 0;\n}\n")
    subprocess.run(["cc", "-w", "-I", include, str(source), "-o", str(tmp_path / "probe")], check=True)
    return subprocess.run([str(tmp_path / "probe")], check=True, capture_output=True,
                          text=True).stdout.splitlines()


@pytest.mark.parametrize("header,sources", [
    ("cuda_runtime_api.h", ["vgsim_cudart_enums.h", "vgsim_cudart_types.h"]),
    ("cuda.h", ["cuda.h", "vgsim_cuda_kinds.h", "vgsim_cuda_enums.h"]),
])
def test_values_sizes_and_offsets_are_nvidias(tmp_path, header, sources):
    theirs = nvidia_headers()
    constants, fields = [], []
    for source in sources:
        found = names_of(source)
        constants += found[0]
        fields += found[1]
    assert len(constants) > 100 and len(fields) > 20
    assert probe(tmp_path, header, constants, fields, OURS) == \
        probe(tmp_path, header, constants, fields, theirs)


def test_the_runtime_compiles_against_nvidias_prototypes():
    theirs = nvidia_headers()
    for source in sorted(glob.glob(os.path.join(ROOT, "tests/sim/runtime/*.c"))):
        subprocess.run(["cc", "-std=c11", "-D_GNU_SOURCE", "-fsyntax-only", "-Wall", "-Werror",
                        "-Wmissing-prototypes", "-isystem", theirs, source], check=True)


def test_the_driver_compiles_against_nvidias_prototypes():
    """A prototype that differs is an error to the compiler."""
    theirs = nvidia_headers()
    for source in sorted(glob.glob(os.path.join(ROOT, "tests/sim/driver/*.c"))):
        subprocess.run(["cc", "-std=c11", "-D_GNU_SOURCE", "-w", "-fsyntax-only", "-I", ROOT,
                        "-isystem", theirs, source], check=True)
