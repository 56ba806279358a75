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
