# test_ways_to_free.py -- frees by another thread, call or graph than one would think: as the driver has them, and the ledger right.
# SPDX-License-Identifier: Apache-2.0
import pytest

import compiled
import guarded
import steps
from guarded import MIB

# Per scenario: what is live at each step, and how many frees the driver refused of what nobody knew.
SCENARIOS = {
    "by-another-thread": ({"taken": {"device": 3 * MIB}, "freed": {}}, 0),
    "after-a-reset": ({"taken": {"device": 3 * MIB, "pool": MIB, "pinned": 4096, "array": ...}, "reset": {}, "freed-too-late": {},
                       "taken-again": {"device": 3 * MIB}, "freed": {}}, 2),
    "pool-by-address": ({"taken": {"pool": 8 * MIB}, "freed-one": {"pool": 5 * MIB}, "freed": {}}, 2),
    "graph-memory": ({"not-launched": {}, "launched": {"graph": 700001}, "freed-in-order": {}, "freed-by-address": {},
                      "launched-again": {"graph": 700001}, "freed-by-a-graph": {}, "graph-gone": {"graph": 700001}, "freed": {}}, 1),
    "external": ({"mapped": {"vmm": 4 * MIB, "external": 4 * MIB}, "freed-one": {"vmm": 4 * MIB, "external": 4 * MIB},
                  "destroyed": {"vmm": 4 * MIB}, "freed": {}}, 0),
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_ledger_equals_the_books(scenario, tmp_path):
    program, place = [compiled.build("case_ways_to_free"), scenario], tmp_path / "plain"
    place.mkdir()
    plain, watched = steps.walk(program, place, guard=False), steps.walk(program, tmp_path)
    assert plain.lines == watched.lines and plain.stderr == watched.stderr == ""
    expected, unknown = SCENARIOS[scenario]
    assert list(watched.report) == list(expected)
    for step, report in watched.report.items():
        books = guarded.live_kinds(watched.books[step][0])
        assert steps.by_kind(report) == books, step
        assert books.keys() == expected[step].keys()
        assert all(size in (..., books[kind]) for kind, size in expected[step].items()), step
        guarded.assert_adds_up(report)
    assert watched.report[step]["hooks"]["unknown_free_count"] == unknown
