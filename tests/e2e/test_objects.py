# test_objects.py -- how many contexts, streams, events, modules and pools there are: in the report as in the simulation's books.
# SPDX-License-Identifier: Apache-2.0
import pytest

import compiled
import guarded
import steps

OBJECTS = ["contexts", "streams", "events", "modules", "pools", "ipc_open"]


def counts(objects):
    return {key: objects[key] for key in ("live", "created", "destroyed")}


def assert_equal(walked):
    for name, report in walked.report.items():
        books = walked.books[name][0]["objects"]
        seen = {key: counts(report["objects"][key]) for key in OBJECTS}
        assert seen == {key: counts(books[key]) for key in OBJECTS}, name


def test_they_equal_the_books_at_every_step(tmp_path):
    walked = steps.walk([compiled.build("case_objects"), "everything"], tmp_path)
    assert list(walked.report) == ["made", "destroyed", "second-context", "second-context-gone", "leaked", "reset"]
    assert_equal(walked)
    live = {name: {key: report["objects"][key]["live"] for key in OBJECTS} for name, report in walked.report.items()}
    assert live["made"] == {"contexts": 1, "streams": 4, "events": 3, "modules": 3, "pools": 1, "ipc_open": 0}
    assert live["leaked"]["streams"] == 5 and live["leaked"]["events"] == 1200 and live["second-context"]["contexts"] == 2
    assert set(live["reset"].values()) == {0}


def test_what_leaks_has_the_stack_that_made_it(tmp_path):
    walked = steps.walk([compiled.build("case_objects"), "everything"], tmp_path)
    objects = walked.report["leaked"]["objects"]
    for key, function, live in (("streams", "leak_streams", 5), ("events", "leak_events", 1200), ("contexts", "use_device", 1)):
        [top] = objects[key]["top"]
        assert top["live"] == live and function in [frame["function"] for frame in top["stack"]]
    assert all(kind not in site["kind"] for kind in ("stream", "event") for site in walked.report["leaked"]["sites"])


@pytest.mark.parametrize("scenario", ["green", "green-first"])
def test_what_a_green_context_makes_is_the_primary_ones(scenario, tmp_path):
    walked = steps.walk([compiled.build("case_objects"), scenario], tmp_path)
    for name, report in walked.report.items():
        books = walked.books[name][0]
        assert steps.by_kind(report) == guarded.live_kinds(books), name
        for key in ("contexts", "streams"):
            if scenario == "green":  # else nobody sees the primary context before something is made in it
                assert counts(report["objects"][key]) == counts(books["objects"][key]), (name, key)
