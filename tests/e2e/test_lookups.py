# test_lookups.py -- how programs reach the driver: every look-up answers as without the guard, but for the functions that are hooked.
# SPDX-License-Identifier: Apache-2.0
import glob
import os
import shutil
import sys

import pytest

import compiled
import guarded
from guarded import LIBRARY, MIB, SIM, TOP

sys.path.insert(0, os.path.join(TOP, "tools/check"))
import hooks_table  # noqa: E402

SELF = "libvramguard.so"

HOOKED = hooks_table.exported_symbols()


def look_up(directory, *arguments, preload=(), guard=True, **variables):
    """The program, with the driver found by name and nothing of the simulation preloaded; {key: answer}."""
    program = [compiled.build("lookup_program", libraries=()), *arguments]
    libraries = [LIBRARY] if guard else []
    done = guarded.run(program, directory, guard=False, sim=False, LD_LIBRARY_PATH=SIM, LD_PRELOAD=":".join([*preload, *libraries]), **variables)
    assert done.returncode == 0 and done.stderr == "", (done.returncode, done.stderr)
    return done.stdout


def answers(text):
    return dict(line.split(": ", 1) for line in text.splitlines())


def assert_same_but_hooked(plain, watched):
    """Both {key: answer}: `library symbol` where something was found."""
    assert plain.keys() == watched.keys()
    seen = set()
    for key, before in plain.items():
        library, _, symbol = before.partition(" ")
        if library in ("libcuda.so.1", "libcudart.so.13") and symbol in HOOKED:
            assert watched[key].split()[0] == SELF, (key, before, watched[key])
            seen.add(symbol)
        else:
            assert watched[key] == before, key
    return seen


@pytest.fixture(scope="module")
def local():
    return compiled.library("lookup_local", "liblocal.so", libraries=[compiled.DRIVER])


def test_dlsym_means_what_it_means(local, tmp_path):
    plain, watched = (answers(look_up(tmp_path, "dlsym", local, guard=g)) for g in (False, True))
    assert plain["unknown"] == plain["not-in-that-library"] == "nothing" and "cuNoSuchFunction" in plain["unknown-error"]
    # The guard's own exports are global: that a name of the table is found there is all that changes, and only for RTLD_DEFAULT.
    seen = assert_same_but_hooked(plain, watched)
    assert seen >= {"cuMemAlloc_v2", "cuMemFree_v2", "cuCtxCreate_v4", "cuGetProcAddress", "cuGetProcAddress_v2"}
    assert plain["cuMemGetInfo_v2"] == watched["cuMemGetInfo_v2"] == "libcuda.so.1 cuMemGetInfo_v2"
    assert watched["cudnnCreate"] == "liblocal.so cudnnCreate"


def test_rtld_default_in_a_local_library_finds_what_it_found(local, tmp_path):
    plain, watched = (answers(look_up(tmp_path, "local", local, guard=g)) for g in (False, True))
    assert plain["of-its-own-library"] == "liblocal.so only_in_here" and plain["not-mine"] == "nothing"
    assert assert_same_but_hooked(plain, watched) == {"cuMemAlloc_v2"}


def test_get_proc_address_in_both_forms(tmp_path):
    plain, watched = (answers(look_up(tmp_path, "proc-address", guard=g)) for g in (False, True))
    seen = assert_same_but_hooked(plain, watched)
    assert seen >= {"cuMemAlloc_v2", "cuMemFree_v2", "cuCtxCreate_v2", "cuCtxCreate_v4", "cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2",
                    "cuGetProcAddress", "cuGetProcAddress_v2"}
    assert plain["'cuGetProcAddress'@11030/0"] == "libcuda.so.1 cuGetProcAddress"
    assert plain["'cuGetProcAddress'@12000/0"] == "libcuda.so.1 cuGetProcAddress_v2"
    assert plain["'cuMemGetInfo'@13000/0"] == watched["'cuMemGetInfo'@13000/0"] == "libcuda.so.1 cuMemGetInfo_v2"


@pytest.fixture
def runtimes(tmp_path):
    """Two copies of the runtime: another path is another library."""
    paths = []
    for name in ("a", "b"):
        directory = tmp_path / name
        directory.mkdir()
        paths.append(shutil.copy(compiled.RUNTIME, directory))
    return paths


def test_two_runtimes_in_one_process_keep_apart(runtimes, tmp_path):
    options = {"VGSIM_FAIL": "cuMemAlloc_v2:2", "VRAMGUARD_KEEP": "always", "VRAMGUARD_REPORT": "none"}
    plain, watched = (look_up(tmp_path, "two", *runtimes, guard=g, **options) for g in (False, True))
    assert plain == watched and answers(plain)["errors"] == "0 2"
    [record] = guarded.records(tmp_path)
    report = guarded.report_of(record, "--now")
    assert report["devices"][0]["process"]["tracked_bytes"] == int(answers(watched)["live"])
    assert report["hooks"]["fallback_count"] == 0 and report["hooks"]["reached"]["runtime"] is True


def test_entry_points_of_the_runtime_are_wrappers(tmp_path):
    plain, watched = (answers(look_up(tmp_path, "entry", compiled.RUNTIME, guard=g)) for g in (False, True))
    seen = assert_same_but_hooked(plain, watched)
    assert seen >= {"cuMemAlloc_v2", "cuGetProcAddress_v2"}


@pytest.mark.parametrize("order", ["in front of us", "behind us"])
def test_another_preload_library_in_the_same_calls(order, tmp_path):
    """Both see each call once, whoever is first; the report is right."""
    chain = compiled.library("lookup_chain", "libchain.so")
    program = [compiled.build("case_frees")]
    preload = [chain, LIBRARY] if order == "in front of us" else [LIBRARY, chain]
    books = tmp_path / "books"
    done = guarded.run(program, tmp_path, guard=False, sim=False, LD_LIBRARY_PATH=SIM, LD_PRELOAD=":".join(preload), VRAMGUARD_KEEP="always",
                       VGSIM_ACCOUNT=books)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.splitlines()[-1] == "chain: 3 6 1"
    [record] = guarded.records(tmp_path)
    report = guarded.report_of(record)
    process = report["devices"][0]["process"]
    mine = guarded.account(books)[0]
    assert process["tracked_bytes"] == mine["kinds"]["device"]["requested_bytes"] == 7 * MIB
    assert process["alloc_count"] == 4 and len(process["contexts"]) == 1
    assert report["devices"][0]["total_bytes"] == mine["total_bytes"], "the driver could not be asked"


def nvidia_runtime():
    folders = ["/usr/local/cuda/lib64", *glob.glob(os.path.join(TOP, "build/venv/lib/python3*/site-packages/nvidia/cu13/lib"))]
    if shutil.which("nvcc"):
        folders.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(shutil.which("nvcc")))), "lib64"))
    if os.environ.get("CUDA_HOME"):
        folders.insert(0, os.path.join(os.environ["CUDA_HOME"], "lib64"))
    for folder in folders:
        if os.path.exists(os.path.join(folder, "libcudart.so.13")):
            return os.path.join(folder, "libcudart.so.13")
    pytest.skip("no PyPI: NVIDIA's libcudart.so.13 is neither in a toolkit nor in build/venv")


def spied(directory, runtime, guard):
    """What the runtime asked for and got: [(name, version, flags, status, library, symbol)], and what its first call said."""
    spy, log = compiled.library("lookup_spy", "libspy.so"), directory / f"log-{guard}"
    out = look_up(directory, "count", runtime, preload=[spy], guard=guard, SPY_LOG=log)
    return [line.split() for line in log.read_text().splitlines()], out.strip()


@pytest.mark.parametrize("whose", ["NVIDIA's", "simulated"])
def test_every_look_up_of_a_runtime(whose, tmp_path):
    """NVIDIA's own runtime makes all its look-ups on the simulated driver, then it stops: the driver's private tables are not there."""
    runtime = nvidia_runtime() if whose == "NVIDIA's" else compiled.RUNTIME
    (plain, said), (watched, said_too) = (spied(tmp_path, runtime, guard) for guard in (False, True))
    assert said == said_too and said in (("36", "103") if whose == "NVIDIA's" else ("0",))
    assert len(plain) == len(watched) and (len(plain) > 400 or whose == "simulated")
    seen = set()
    for before, after in zip(plain, watched):
        assert before[:4] == after[:4]
        if before[5] in HOOKED:
            assert after[4] == SELF, (before, after)
            seen.add(before[5])
        else:
            assert before == after
    assert seen >= {"cuMemAlloc_v2", "cuMemFree_v2", "cuMemHostAlloc", "cuMemAllocManaged", "cuGetProcAddress_v2"}
    assert whose == "simulated" or "cuGetProcAddress" in seen
    assert any(before[5] in ("cuLaunchKernel", "cuMemcpyAsync", "cuStreamCreate") for before in plain)
