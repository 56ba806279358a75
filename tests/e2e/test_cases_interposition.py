# test_cases_interposition.py -- what other interposers were reported to break, by project and thread; docs/interposition-cases.md has them all.
# SPDX-License-Identifier: Apache-2.0
#
# Each is run without the guard and with it: the driver's answers, the output and the status have to be the same, and the books have to be right.
import os
import re
import subprocess
import sys

import pytest

import compiled
import guarded
import steps
import test_sim_runtime
from guarded import GIB, LIBRARY, MIB, SIM

PROGRAM = os.path.join(compiled.HERE, "cases_program.py")
QUIET = {"VRAMGUARD_REPORT": "none", "VRAMGUARD_KEEP": "always"}


def told(lines):
    """What the driver said."""
    return [line for line in lines if not line.startswith(("live ", "step "))]


def both(command, directory, **options):
    """Without the guard and with it, equal in all that the program sees; at each step the report equals the program's own count."""
    (directory / "plain").mkdir(), (directory / "watched").mkdir()
    options = {**QUIET, **options}
    plain = steps.walk(command, directory / "plain", guard=False, **options)
    watched = steps.walk(command, directory / "watched", **options)
    assert plain.lines == watched.lines and plain.stderr == watched.stderr == ""
    for name, expected in steps.by_own_count(watched).items():
        assert steps.by_kind(watched.report[name]) == expected, name
        assert watched.report[name]["hooks"]["unknown_free_count"] == 0, name
        if all(device["free_bytes"] is not None for device in watched.report[name]["devices"]):  # no context was current yet: unknown
            guarded.assert_adds_up(watched.report[name])
        books = {entry["device"]: entry for entry in watched.books[name]}
        for device in watched.report[name]["devices"]:
            assert device["process"]["tracked_bytes"] == occupied(books[device["index"]]), name
    return watched


def occupied(books):
    return sum(books["kinds"][kind]["requested_bytes"] for kind in ("device", "pool", "vmm", "array", "mipmap", "graph") if kind in books["kinds"])


def scenario(name, directory, **options):
    return both([guarded.PYTHON, PROGRAM, name], directory, **options)


def path(name, directory, libraries=(), **options):
    return both([compiled.build("case_paths", libraries=libraries), name], directory, sim=False, LD_LIBRARY_PATH=SIM, **options)


# --- look-ups -------------------------------------------------------------------------------------


def test_hami_core_36_the_look_up_of_11_3_has_four_arguments(tmp_path):
    assert told(path("arity", tmp_path).lines) == ["11.3: 0, the fifth argument is 77", "12.0: 0, the fifth argument is 0"]


def test_hami_core_57_an_old_version_is_not_the_newest_function(tmp_path):
    lines = told(path("versions", tmp_path).lines)
    there = [line for line in lines if ": 500," not in line]  # a driver may have forgotten the oldest
    assert len(lines) == 13 and len(there) >= 10 and all(re.search(r": 0, is cu\w+$", line) for line in there), lines


def test_vcuda_20_a_look_up_without_a_place_for_the_answer(tmp_path):
    assert len(told(path("null", tmp_path).lines)[0].split()) == 6


@pytest.fixture(scope="module")
def thin_driver():
    return compiled.library("case_thin_driver", "libcuda.so.1", "-Wl,-soname,libcuda.so.1")


def through_thin_driver(thin_driver, directory):
    walked = both([compiled.build("case_paths", libraries=()), "thin"], directory, sim=False, LD_LIBRARY_PATH=os.path.dirname(thin_driver),
                  REAL_DRIVER=compiled.DRIVER)
    assert told(walked.lines) == ["absent 1"]
    return walked


def test_hami_core_326_a_driver_that_looks_itself_up_finds_itself(thin_driver, tmp_path):
    """On WSL a thin driver stands in front; what it hands out is counted, though its own exports are few (HAMi 27: and some are missing)."""
    assert "made" in through_thin_driver(thin_driver, tmp_path).report


def test_hami_core_52_look_ups_inside_the_start_of_the_driver_do_not_hang(thin_driver, tmp_path):
    """HAMi-core 59 and HAMi 1834 too: another thread looks things up meanwhile."""
    walked = through_thin_driver(thin_driver, tmp_path)
    assert walked.report["made"]["hooks"]["reached"]["driver"] is True


def test_hami_core_215_names_that_only_begin_like_the_drivers(tmp_path):
    """cudnn*, cublas*, curl_* of a library: it finds its own, by its handle and by RTLD_DEFAULT."""
    local = compiled.library("lookup_local", "liblocal.so", libraries=[compiled.DRIVER])
    program = compiled.build("lookup_program", libraries=())
    out = guarded.run([program, "dlsym", local], tmp_path, sim=False, LD_LIBRARY_PATH=SIM).stdout
    for name in ("cudnnCreate", "cublasCreate_v2", "cuMemOfMyOwn", "curl_easy_init"):
        assert f"{name}: liblocal.so {name}\n" in out
    assert "only_in_here: " not in out
    out = guarded.run([program, "local", local], tmp_path, sim=False, LD_LIBRARY_PATH=SIM).stdout
    assert "of-its-own-library: liblocal.so only_in_here\n" in out and "of-its-own-library-too: liblocal.so cudnnCreate\n" in out


@pytest.mark.parametrize("order", ["in front of us", "behind us"])
def test_hami_723_another_library_replaces_dlsym_too(order, tmp_path):
    other = compiled.library("case_other_dlsym", "libother.so")
    preload = [other, LIBRARY] if order == "in front of us" else [LIBRARY, other]
    options = {"guard": False, "sim": False, "LD_LIBRARY_PATH": SIM, "LD_PRELOAD": ":".join(preload)}
    done = guarded.run([compiled.build("case_frees")], tmp_path, VRAMGUARD_KEEP="always", **options)
    [record] = guarded.records(tmp_path)
    assert done.returncode == 0 and steps.by_kind(guarded.report_of(record, "--now")) == {"device": 7 * MIB}
    done = guarded.run([compiled.build("lookup_program", libraries=()), "proc-address"], tmp_path, **options)
    assert done.returncode == 0 and "'cuMemAlloc'@3020/0: libvramguard.so" in done.stdout
    assert done.stdout.endswith("other: asked\n") == (order == "in front of us")


def test_vgpu_manager_89_the_next_one_is_there_when_asked_twice(tmp_path):
    """By the program, and by a library behind us at each of its calls: it finds the driver's, not its own."""
    assert told(path("next", tmp_path, libraries=[compiled.DRIVER]).lines) == ["found 1, again 1, another 1"]
    chain = compiled.library("lookup_chain", "libchain.so")
    done = guarded.run([compiled.build("case_frees")], tmp_path, guard=False, sim=False, LD_LIBRARY_PATH=SIM, LD_PRELOAD=f"{LIBRARY}:{chain}", **QUIET)
    assert done.returncode == 0 and done.stdout.endswith("chain: 3 6 1\n"), done.stderr


def test_hami_27_a_shell_needs_nothing_of_cuda(tmp_path):
    """No driver anywhere: every symbol of the library binds at once, and nothing is said."""
    env = {"PATH": os.environ["PATH"], "LD_PRELOAD": LIBRARY, "LD_BIND_NOW": "1"}
    done = subprocess.run(["bash", "-c", "echo $(( 6 * 7 )); ls / | wc -l >/dev/null"], env=env, cwd=tmp_path, capture_output=True, text=True,
                          timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "42\n", "") and os.listdir(tmp_path) == []


def test_nvshare_11_a_program_that_looks_everything_up(tmp_path):
    """No symbol of CUDA in the program; HAMi-core 192, dynamo 4963 and AVA 203 have the same root: only what is looked up is called."""
    walked = path("thin", tmp_path)
    assert steps.by_kind(walked.report["made"]) == {"device": 5 * MIB}


# --- runtimes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", test_sim_runtime.WAYS)
def test_ava_203_no_runtime_call_has_to_be_seen(way, tmp_path):
    """A runtime inside the program shows no call of its own (dynamo 4963, nvbit 134, cudf 14566); a shared one adds no count of its own."""
    flags, libraries = test_sim_runtime.WAYS[way]
    program = compiled.build("case_runtime_kinds", *flags, libraries=libraries)
    walked = steps.walk([program, "plain"], tmp_path, sim=False, LD_LIBRARY_PATH=SIM, VGSIM_MEMORY="1GiB", VRAMGUARD_KEEP="always")
    made = walked.report["made"]
    assert made["devices"][0]["process"]["tracked_bytes"] == occupied(walked.books["made"][0]) > 0
    assert made["hooks"]["reached"]["driver"] is True and made["hooks"]["fallback_count"] == 0
    apis = {site["api"] for site in made["sites"]}
    assert ("cudaMalloc" in apis) == ("static" not in way) and ("cuMemAlloc_v2" in apis) == ("static" in way)


@pytest.mark.parametrize("way", ["12", "13"])
def test_gvirtus_1_symbols_of_a_runtime_that_have_versions(way, tmp_path):
    """The program asks for cudaMallocPitch@libcudart.so.13; ours has no version and answers all the same."""
    flags, libraries = test_sim_runtime.WAYS[way]
    program = compiled.build("case_runtime_kinds", *flags, libraries=libraries)
    names = subprocess.run(["nm", "-D", program], capture_output=True, text=True, check=True).stdout
    assert f" U cudaMallocPitch@libcudart.so.{way}" in names
    walked = steps.walk([program, "plain"], tmp_path, sim=False, LD_LIBRARY_PATH=SIM, VGSIM_MEMORY="1GiB", VRAMGUARD_KEEP="always")
    assert {"cudaMalloc", "cudaMallocPitch", "cudaMalloc3D", "cudaMallocAsync"} <= {site["api"] for site in walked.report["made"]["sites"]}


# --- pools, graphs, captures ----------------------------------------------------------------------


def test_hami_core_93_what_a_pool_gave_is_taken_back_by_every_free(tmp_path):
    """HAMi-core 217, UCX 7194, kokkos 4228: a free that the table does not expect goes to the driver and is counted."""
    assert list(scenario("pool", tmp_path).report) == ["three", "one", "none"]


def test_hami_core_96_a_block_of_a_pool_counts_once(tmp_path):
    walked = scenario("pool_again", tmp_path, memory="1GiB")
    assert walked.report["none"]["devices"][0]["peak_bytes"] == 300 * MIB


def test_hami_core_67_memory_of_a_graph_is_freed_by_its_address(tmp_path):
    assert told(scenario("graph_free", tmp_path).lines) == ["free 0", "free 0", "done"]


def test_hami_core_192_a_capture_stays_valid(tmp_path):
    """With allocations in it and beside it, and nothing of ours between them that a strict capture forbids."""
    lines = told(scenario("capture", tmp_path).lines)
    assert lines == ["info 0 True", "beside 0", "end 0", "done"]


def test_hami_core_192_what_breaks_a_capture_breaks_it_as_before(tmp_path):
    lines = told(scenario("broken_capture", tmp_path).lines)
    assert lines == ["unsafe 900", "end 901", "end 0", "done"]


# --- frees and devices ----------------------------------------------------------------------------


def test_hami_core_321_half_of_the_question_about_memory(tmp_path):
    """HAMi-core 333: cuMemGetInfo(NULL, &total) is the driver's to answer."""
    scenario("null_info", tmp_path)


def test_hami_core_321_a_mapped_buffer_of_another_interface_is_freed(tmp_path):
    assert "free 0" in scenario("external", tmp_path).lines


@pytest.mark.parametrize("fails", ["cuCtxGetId:1+", "cuMemGetInfo:1+", "cuDeviceGetUuid:1+", "cuDeviceGetDefaultMemPool:1+"])
def test_hami_core_306_a_query_of_ours_that_fails_loses_nothing(fails, tmp_path):
    """What the driver gave stays the program's, and is counted."""
    watched = tmp_path / "watched"
    watched.mkdir()
    options = {"VRAMGUARD_KEEP": "always", "VRAMGUARD_REPORT": "none", "VGSIM_FAIL": fails}
    walked = steps.walk([guarded.PYTHON, PROGRAM, "pool"], watched, **options)
    assert walked.stderr == "" and steps.by_kind(walked.report["one"]) == {"pool": 15 * MIB} and steps.by_kind(walked.report["none"]) == {}


def test_hami_core_310_the_device_is_the_one_of_the_allocation(tmp_path):
    walked = scenario("other_device", tmp_path, VGSIM_DEVICES=2)
    tracked = lambda name: [device["process"]["tracked_bytes"] for device in walked.report[name]["devices"]]
    assert (tracked("two"), tracked("one"), tracked("none")) == ([9 * MIB, 4 * MIB], [0, 4 * MIB], [0, 0])


def test_hami_core_172_memory_made_on_a_thread_without_a_context(tmp_path):
    """HAMi-core 169, 186, 128, 98 and HAMi 1196, 1328: cuMemCreate is counted."""
    scenario("bare_thread", tmp_path)


def test_hami_1764_the_device_of_a_handle_is_in_its_properties(tmp_path):
    """A thread without a context, a device that nobody has used."""
    walked = scenario("bare_thread_of_the_last_device", tmp_path, VGSIM_DEVICES=8)
    by_device = {device["index"]: device["process"]["by_kind"].get("vmm", 0) for device in walked.report["made"]["devices"]}
    assert by_device[7] > 0 and sum(by_device.values()) == by_device[7]


def test_hami_core_187_a_handle_in_host_memory_is_none_of_the_device(tmp_path):
    walked = scenario("host_numa", tmp_path)
    assert walked.report["made"]["devices"][0]["process"]["tracked_bytes"] == 0


def test_hami_core_186_a_handle_lives_until_its_last_mapping(tmp_path):
    scenario("mapped_after_release", tmp_path)


def test_an_event_of_another_process_is_a_known_one(tmp_path):
    """As every pointer that another process or interface gave: its end is not the end of something unknown."""
    walked = scenario("ipc_event", tmp_path)
    assert "destroy 0" in walked.lines
    live = [walked.report[name]["objects"]["events"]["live"] for name in ("opened", "destroyed")]
    assert live == [1, 0]


def test_hami_1181_no_sum_falls_below_nothing(tmp_path):
    """HAMi 1109, HAMi-core 200: frees of what was never counted."""
    done = guarded.run([compiled.build("case_frees")], tmp_path, VRAMGUARD_KEEP="always", VGSIM_FAIL="cuMemFree_v2:1:700")
    [record] = guarded.records(tmp_path)
    report = guarded.report_of(record)
    assert done.returncode == 0 and report["hooks"]["unknown_free_count"] > 0
    for device in report["devices"]:
        process = device["process"]
        figures = [process["tracked_bytes"], device["free_bytes"], *process["by_kind"].values(), *(x["bytes"] for x in process["by_library"])]
        assert all(0 <= figure <= device["total_bytes"] for figure in figures), figures
    assert all(0 <= site["live_bytes"] < GIB for site in report["sites"])


def test_hami_core_191_a_second_process_sees_what_the_first_one_took(tmp_path):
    options = {"VGSIM_SHARED": tmp_path / "shared", "memory": "2GiB", "VRAMGUARD_KEEP": "always"}
    (tmp_path / "first").mkdir(), (tmp_path / "second").mkdir()
    with guarded.start([guarded.PYTHON, PROGRAM, "free_and_total"], tmp_path / "first", **options) as first:
        before = [first.stdout.readline() for _ in range(3)][0].split()
        second = steps.walk([guarded.PYTHON, PROGRAM, "free_and_total"], tmp_path / "second", **options)
        after = told(second.lines)[0].split()
        assert int(after[1]) == int(before[1]) - 64 * MIB - 300 * MIB and after[3] == before[3]
        assert second.report["taken"]["devices"][0]["free_bytes"] == int(after[1])
        first.communicate("\n", timeout=30)
    assert first.returncode == 0


def test_hami_core_281_managed_memory_is_called_managed(tmp_path):
    assert told(scenario("is_managed", tmp_path).lines)[:2] == ["1", "0"]


# --- Python ---------------------------------------------------------------------------------------


def test_pytorch_97833_no_lock_of_python_is_waited_for(tmp_path):
    """A thread allocates while another one holds the lock and waits for it."""
    library = compiled.library("case_gil", "libgil.so", libraries=[compiled.DRIVER])
    code = f"import ctypes\nprint(ctypes.PyDLL({library!r}).take_in_a_thread() != 0)\n"
    done = guarded.run([sys.executable, "-c", code], tmp_path, timeout=60, **QUIET)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    [record] = guarded.records(tmp_path)
    assert steps.by_kind(guarded.report_of(record, "--now")) == {"device": 6 * MIB}


EXPANDABLE = """
import json, sys, torch
blocks = [torch.empty(n * 7 << 20, dtype=torch.uint8, device="cuda") for n in range(1, 9)]
del blocks[::2]
print("reserved", torch.cuda.memory_reserved(), "allocated", torch.cuda.memory_allocated())
print("step full", flush=True)
sys.stdin.readline()
"""


def test_torch_memory_saver_24_segments_that_grow(tmp_path):
    """Torch asks for them through entry points of the driver that no runtime knows."""
    guarded.need_torch()
    walked = steps.walk([guarded.TORCH_PYTHON, "-c", EXPANDABLE], tmp_path, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True",
                        PYTORCH_ALLOC_CONF="expandable_segments:True", VRAMGUARD_KEEP="always")
    _, reserved, _, allocated = [line for line in walked.lines if line.startswith("reserved")][0].split()
    process = walked.report["full"]["devices"][0]["process"]
    assert process["by_kind"]["vmm"] == int(reserved) and process["by_kind"].get("device", 0) == 0
    assert (process["framework"]["reserved_bytes"], process["framework"]["allocated_bytes"]) == (int(reserved), int(allocated))
