# test_crowd.py -- reports made while other threads allocate: what is under way is never called a context's overhead.
# SPDX-License-Identifier: Apache-2.0
import pytest

import compiled
import guarded
from guarded import MIB

CONTEXT = 300 * MIB


@pytest.mark.parametrize("knobs", [{}, {"VGSIM_LATENCY": "cuMemAlloc_v2:300"}])
def test_overhead_is_the_context_however_many_threads_allocate(knobs, tmp_path):
    program = compiled.build("case_crowd")
    for attempt in range(12):
        directory = tmp_path / str(attempt)
        directory.mkdir()
        guarded.run([program, "4", "4", "500"], directory, memory="4GiB", **knobs)
        reports = guarded.written(directory, "oom")
        assert reports
        for report in reports:
            [device] = report["devices"]
            guarded.assert_adds_up(report)
            [context] = device["process"]["contexts"]
            # Whole 2 MiB pages are asked for: nothing is rounded, and the context is all there is beyond them.
            assert context["overhead_bytes"] in (CONTEXT, None), (attempt, device)
            if context["overhead_bytes"] is not None and device["unattributed_bytes"] == 0:
                assert device["process"]["tracked_bytes"] + CONTEXT + device["free_bytes"] == device["total_bytes"]


def test_a_report_of_quiet_threads_is_of_one_moment(tmp_path):
    """The refused thread waits for the others' calls to land: then every figure agrees."""
    books = tmp_path / "books"
    guarded.run([compiled.build("case_crowd"), "4", "2", "600"], tmp_path, memory="4GiB", VGSIM_ACCOUNT=books)
    report = guarded.written(tmp_path, "oom")[-1]
    [context] = report["devices"][0]["process"]["contexts"]
    assert context["overhead_bytes"] == CONTEXT and report["devices"][0]["unattributed_bytes"] == 0
