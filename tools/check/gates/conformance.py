# conformance.py -- every row of hooks.def and every type of cuda_abi.h against NVIDIA's own headers, by gcc and by clang.
# SPDX-License-Identifier: Apache-2.0
#
# The headers are a toolkit's, else those of torch's wheels. One C file is made and compiled, never run:
#   rows    the driver's function has the type PFN_<asked>_v<since><ps>, and the row's parameters repeat NVIDIA's declaration
#   types   cuda_abi.h itself is in that file, every name with `ours_` in front; sizes, fields, values and typedefs have to agree
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import hooks_table

SAME = "_Static_assert(__builtin_types_compatible_p({0}, {1}), \"{2}\");"


def row_checks():
    for row in hooks_table.symbols():
        if row.role in ("HOOK", "NOTE"):
            yield f"CUresult CUDAAPI {row.name}{row.parameters};"
            yield SAME.format(f"__typeof__(&{row.name})", f"PFN_{row.asked}_v{row.since}{row.ps}", f"{row.name} is not {row.asked} of {row.since}{row.ps}")
        elif row.role in ("RUNTIME", "LOOKUP"):
            # The headers declare one of both stream variants; it is the other one's type too.
            yield from redeclared(re.sub(r"_ptsz$", "", row.name), row.result, row.parameters)


def redeclared(name, result, parameters):
    """A name that NVIDIA does not declare is an error, and so is one with other types."""
    yield f"_Static_assert(sizeof(&{name}) == sizeof(void *), \"{name}\");"
    yield f"{result} {name}{parameters};"


def split(body):
    """The declarations of a struct's body; those of a nested struct stay inside theirs."""
    depth, part = 0, ""
    for character in body:
        depth += (character == "{") - (character == "}")
        if character == ";" and depth == 0:
            yield part.strip()
            part = ""
        else:
            part += character


def fields(body):
    """Every member, by its path; members of a nested struct without a name are the outer one's."""
    for declaration in split(body):
        if nested := re.match(r"(?:struct|union)\s*\{(.*)\}\s*(\w*)$", declaration, flags=re.S):
            if nested[2]:
                yield nested[2]
            yield from ((nested[2] + "." if nested[2] else "") + path for path in fields(nested[1]))
        else:
            yield from re.findall(r"(\w+)(?:\[\w+\])?\s*(?:,|$)", declaration)


def structs_of(text):
    """(tag, body) of every struct that is defined at the top."""
    for match in re.finditer(r"^(?:typedef )?struct (\w+) \{", text, flags=re.M):
        depth, end = 1, match.end()
        while depth:
            depth += (text[end] == "{") - (text[end] == "}")
            end += 1
        yield match[1], text[match.end():end - 1]


def type_checks():
    """cuda_abi.h under other names, then one assertion for everything it defines. Structs that it only declares are used by pointer alone: for
    these NVIDIA's tag has to exist with that name, which the typedef's or the rows' assertions say."""
    text = hooks_table.read("interpose/cuda_abi.h")
    queries = re.findall(r"^typedef \w+ vg_(cu\w+)\(.*?\);$", text, flags=re.M | re.S)
    enumerators = re.findall(r"\b(\w+) = -?(?:0x)?[0-9a-f]+", text)
    structs = list(structs_of(text))
    tags = set(re.findall(r"\b(?:struct|enum) (\w+)", text))
    compound = re.findall(r"^(?:\S.*)?\} (\w+);", text, flags=re.M)
    simple = re.findall(r"^typedef ([^(){};]*?)(\**)(\w+);", text, flags=re.M)
    known = tags | set(compound) | {name for _, _, name in simple} | set(enumerators)
    yield re.sub(r"\b\w+\b", lambda word: "ours_" + word[0] if word[0] in known else word[0], text)
    for name in enumerators:
        yield f"_Static_assert((int)ours_{name} == (int){name}, \"{name}\");"
    for tag, body in structs:
        spelled = f"struct {tag}"
        yield f"_Static_assert(sizeof(struct ours_{tag}) == sizeof({spelled}), \"size of {spelled}\");"
        for field in fields(body):
            place = f"__builtin_offsetof(struct ours_{tag}, {field}) == __builtin_offsetof({spelled}, {field})"
            size = f"sizeof(((struct ours_{tag} *)0)->{field}) == sizeof((({spelled} *)0)->{field})"
            yield f"_Static_assert({place} && {size}, \"{spelled}.{field}\");"
    for base, stars, name in simple:
        yield SAME.format(name, base.strip() + stars, f"typedef {name}")
    for name in compound:
        yield f"_Static_assert(sizeof(ours_{name}) == sizeof({name}), \"size of {name}\");"
    opaque = {tag for tag in tags if not re.search(rf"\b(struct|enum) {tag} \{{", text)}
    print_counts.update(types=len(simple) + len(compound) + len(structs) + len(enumerators), opaque=len(opaque))
    queries_seen.extend(queries)


def query_checks():
    """The guard's own calls, with the version that the headers give a program by default (no __CUDA_API_VERSION_INTERNAL)."""
    text = hooks_table.read("interpose/cuda_abi.h")
    for result, name, parameters in re.findall(r"^typedef (\w+) vg_(cu\w+)(\(.*?\));$", text, flags=re.M | re.S):
        yield f"typedef {result} vg_{name}{parameters};"
        yield SAME.format(f"vg_{name}", f"__typeof__({name})", f"vg_{name}")


def compile_all(folder, sources):
    problems, compilers = [], [name for name in ("gcc", "clang") if shutil.which(name)]
    for compiler in compilers:
        for name, source in sources.items():
            command = [compiler, "-std=c11", "-fsyntax-only", "-Wno-deprecated-declarations", "-isystem", folder, "-x", "c", "-"]
            result = subprocess.run(command, input=source, capture_output=True, text=True)
            if result.returncode:
                problems.append(f"{compiler}, {name}:\n{result.stderr[:4000]}")
    return problems, compilers


print_counts, queries_seen = {}, []
folder = hooks_table.header_folder()
if folder is None:
    hooks_table.skip(hooks_table.why_no_headers())
head = ["#include <stddef.h>", "#include <stdint.h>"]
internal = ["#define __CUDA_API_VERSION_INTERNAL", "#define __CUDART_API_VERSION_INTERNAL"]
nvidia = ["#include <cuda.h>", "#include <cudaTypedefs.h>", "#include <cuda_runtime_api.h>"]
rows = list(row_checks())
sources = {
    "rows and types": "\n".join(head + internal[:1] + nvidia + rows + list(type_checks())) + "\n",
    "own calls": "\n".join(head + nvidia + list(query_checks())) + "\n",
}
if os.environ.get("SHOW"):
    print("\n/* ---- */\n".join(sources.values()))
problems, compilers = compile_all(folder, sources)
print("\n".join(problems) or f"{len(rows)} checks of rows, {print_counts['types']} types and values, {print_counts['opaque']} tags that are only pointed to, "
      f"{len(queries_seen)} own calls, {' and '.join(compilers)}")
sys.exit(bool(problems))
