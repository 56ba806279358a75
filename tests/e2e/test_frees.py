# test_frees.py -- frees of unknown, freed, NULL and refused pointers: forwarded, the driver's status unchanged, the ledger right.
# SPDX-License-Identifier: Apache-2.0
import compiled
import guarded
from guarded import MIB

PLAN = {"VGSIM_FAIL": "cuMemFree_v2:1:700", "VRAMGUARD_KEEP": "always"}
UNKNOWN = 5  # again, unknown, interior, host-unknown, unregistered; NULL is no pointer


def test_wrong_frees_are_forwarded_and_change_no_counter(tmp_path):
    program = [compiled.build("case_frees")]
    plain = guarded.run(program, tmp_path, guard=False, **PLAN)
    watched = guarded.run(program, tmp_path, VGSIM_ACCOUNT=tmp_path / "books", **PLAN)
    assert plain.stdout == watched.stdout and watched.stderr == plain.stderr == ""
    assert plain.returncode == watched.returncode == 0
    said = dict(line.split() for line in watched.stdout.splitlines())
    assert said["planned"] == "700" and said["good"] == said["null"] == said["host-good"] == "0"
    assert "0" not in (said["again"], said["unknown"], said["interior"], said["unregistered"])
    [record] = guarded.records(tmp_path)
    report = guarded.report_of(record)
    process = report["devices"][0]["process"]
    assert process["tracked_bytes"] == process["by_kind"]["device"] == int(said["live"])
    assert (process["alloc_count"], process["free_count"]) == (4, 2)
    assert report["hooks"]["unknown_free_count"] == UNKNOWN
    assert process["by_kind"].get("pinned", 0) == report["host"]["pinned_bytes"] == 0
    mine = guarded.account(tmp_path / "books")[0]
    assert mine["kinds"]["device"]["requested_bytes"] == process["tracked_bytes"]



def test_a_refused_free_leaves_the_block_where_it_was(tmp_path):
    guarded.run([compiled.build("case_frees")], tmp_path, **PLAN)
    [record] = guarded.records(tmp_path)
    report = guarded.report_of(record)
    blocks = sorted((s["live_bytes"], s["live_count"], s["alloc_count"], s["free_count"]) for s in report["sites"])
    assert blocks == [(3 * MIB, 1, 1, 0), (7 * MIB, 1, 1, 0)]


def names(stack):
    return [f["function"] for f in stack if f["lang"] == "native"]


def test_refused_frees_say_who_was_first_and_where_it_came_from(tmp_path):
    """A finding: the record stays after a clean end, and the report names every party."""
    done = guarded.run([compiled.build("case_faults")], tmp_path)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    [report] = guarded.written(tmp_path, "exit")
    assert report["frees"]["unknown_count"] == 5 and report["frees"]["failed_count"] == 0
    again, strange, late = report["frees"]["faults"]
    assert (again["kind"], again["count"], again["status"], again["bytes"], again["api"]) == ("double", 3, 1, 3 * MIB, "cuMemFree_v2")
    assert "second_owner" in names(again["stack"]) and "take" in names(again["allocated"])
    assert "first_owner" in names(again["first"]["stack"]) and "second_owner" not in names(again["first"]["stack"])
    assert (strange["kind"], strange["address"], strange["bytes"], strange["first"]) == ("unknown", "0x123456789000", None, None)
    assert "stranger" in names(strange["stack"]) and strange["allocated"] == []
    assert (late["kind"], late["bytes"], late["first"]["api"]) == ("double", 5 * MIB, "cuDevicePrimaryCtxReset_v2")
    text = guarded.tool("report", tmp_path)
    assert "freed again at case_faults.c" in text and "second_owner" in text and "first_owner" in text
    guarded.assert_adds_up(report)


def test_a_free_that_the_driver_refused_of_a_live_block_is_named(tmp_path):
    guarded.run([compiled.build("case_frees")], tmp_path, **PLAN)
    [report] = guarded.written(tmp_path, "exit")
    [refused] = [f for f in report["frees"]["faults"] if f["kind"] == "refused"]
    assert refused["status"] == 700 and refused["count"] == 1 and refused["allocated"]


def test_ten_thousand_frees_leave_the_ring_at_its_size(tmp_path):
    code = ("import ctypes, os\ncuda = ctypes.CDLL('libcuda.so.1')\nc, p = ctypes.c_void_p(), ctypes.c_uint64()\n"
            "cuda.cuInit(0); cuda.cuDevicePrimaryCtxRetain(ctypes.byref(c), 0); cuda.cuCtxSetCurrent(c)\n"
            "def used():\n    [r] = [n for n in os.listdir('.') if n.endswith('.vgr')]\n"
            "    return int.from_bytes(open(r, 'rb').read(32)[16:24], 'little')\n"
            "for n in range(10000):\n    assert not cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(4096))\n"
            "    assert not cuda.cuMemFree_v2(p)\n    if n in (2000, 9999): print(used())\n")
    done = guarded.run([guarded.PYTHON, "-c", code], tmp_path)
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.split()
    assert first == last
