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
    for macro, column in hooks_table.rows():
        name = column[0]
        if macro in ("HOOK", "HOOK_STREAM"):
            if macro == "HOOK":
                symbols = [(name, column[1], column[2], column[3], column[6])]
            else:
                symbols = [(name + ps, name, column[1], ps, column[4]) for ps in ("", "_ptsz")]
            for symbol, asked, since, ps, parameters in symbols:
                yield f"CUresult CUDAAPI {symbol}{parameters};"
                yield SAME.format(f"__typeof__(&{symbol})", f"PFN_{asked}_v{since}{ps}", f"{symbol} is not {asked} of {since}{ps}")
        elif macro == "RUNTIME":
            yield from redeclared(name, "cudaError_t", column[3])
        elif macro == "LOOKUP":
            yield from redeclared(re.sub(r"_ptsz$", "", name), column[2], column[3])
        elif macro == "IGNORE" and re.match(r"cu[A-Z]", name):
            yield f"_Static_assert(sizeof(&{name}) == sizeof(void *), \"{name}\");"


def redeclared(name, result, parameters):
    """A name that NVIDIA does not declare is an error, and so is one with other types."""
    yield f"_Static_assert(sizeof(&{name}) == sizeof(void *), \"{name}\");"
    yield f"{result} {name}{parameters};"


def type_checks():
    """cuda_abi.h under other names, then one assertion for everything it defines."""
    text = hooks_table.read("interpose/cuda_abi.h")
    queries = re.findall(r"^typedef \w+ vg_(cu\w+)\(.*\);$", text, flags=re.M)
    enumerators = re.findall(r"\b(\w+) = -?\d+", text)
    structs = [(tag, body) for tag, body in re.findall(r"struct (\w+) \{(.*?)\}", text, flags=re.S)]
    tags = set(re.findall(r"\b(?:struct|enum) (\w+)", text))
    typedefs = set(re.findall(r"(\w+);", " ".join(re.findall(r"^typedef [^(){}]*;|^\} \w+;", text, flags=re.M))))
    known = tags | typedefs | set(enumerators)
    yield re.sub(r"\b\w+\b", lambda word: "ours_" + word[0] if word[0] in known else word[0], text)
    for name in enumerators:
        yield f"_Static_assert((int)ours_{name} == (int){name}, \"{name}\");"
    for tag, body in structs:
        spelled = f"struct {tag}"
        yield f"_Static_assert(sizeof(struct ours_{tag}) == sizeof({spelled}), \"size of {spelled}\");"
        for declaration in body.split(";"):
            for field in re.findall(r"(\w+)(?:\[\w+\])?\s*(?:,|$)", declaration.strip()):
                place = f"__builtin_offsetof(struct ours_{tag}, {field}) == __builtin_offsetof({spelled}, {field})"
                size = f"sizeof(((struct ours_{tag} *)0)->{field}) == sizeof((({spelled} *)0)->{field})"
                yield f"_Static_assert({place} && {size}, \"{spelled}.{field}\");"
    for definition in re.findall(r"^typedef ([^(){};]*?)(\**)(\w+);", text, flags=re.M):
        base, stars, name = definition[0].strip(), definition[1], definition[2]
        yield SAME.format(name, base + stars, f"typedef {name}")
    for name in re.findall(r"^\} (\w+);", text, flags=re.M):
        yield f"_Static_assert(sizeof(ours_{name}) == sizeof({name}), \"size of {name}\");"
    print_counts["types"] = len(typedefs) + len(structs) + len(enumerators)
    queries_seen.extend(queries)


def query_checks():
    """The guard's own calls, with the version that the headers give a program by default (no __CUDA_API_VERSION_INTERNAL)."""
    text = hooks_table.read("interpose/cuda_abi.h")
    for result, name, parameters in re.findall(r"^typedef (\w+) vg_(cu\w+)(\(.*\));$", text, flags=re.M):
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
print("\n".join(problems) or f"{len(rows)} checks of rows, {print_counts['types']} types and values, {len(queries_seen)} own calls, "
      f"{' and '.join(compilers)}")
sys.exit(bool(problems))
