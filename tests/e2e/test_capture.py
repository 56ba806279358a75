# test_capture.py -- while a stream captures the guard asks the driver next to nothing, invalidates no capture, and gets out of it again.
# SPDX-License-Identifier: Apache-2.0
import os
import re
from collections import Counter

import pytest

import compiled
import guarded
import steps
import test_sim_runtime

ALLOWED = {"cuCtxGetCurrent", "cuCtxGetDevice", "cuCtxGetId", "cuThreadExchangeStreamCaptureMode"}  # design, section 4
MODES = {"global": "0", "thread-local": "1", "relaxed": "2"}
SCENARIOS = [["whole", mode] for mode in MODES.values()] + [["unsafe", mode] for mode in MODES.values()] + [
    ["elsewhere", mode, thread] for mode in MODES.values() for thread in ("0", "2")] + [
    ["into-a-graph"], ["stream-destroyed"], ["joined-stream-destroyed"], ["context-destroyed"], ["primary-released"], ["others-destroyed"], ["two-at-once"]]


def both(command, directory, **options):
    """The walks of the program without and with the guard, and how often the guard made each driver call while a stream captured."""
    walks, calls = [], []
    for guard in (False, True):
        place = os.path.join(directory, "guarded" if guard else "plain")
        os.mkdir(place)
        log = os.path.join(place, "calls")
        walks.append(steps.walk(command, place, guard=guard, VGSIM_STRICT_CAPTURE=log, **options))
        with open(log, encoding="utf-8") as file:
            calls.append(Counter(file.read().split()))
    plain, watched = calls
    assert not plain - watched, plain - watched
    return walks[0], walks[1], watched - plain


@pytest.mark.parametrize("scenario", SCENARIOS, ids=" ".join)
def test_captures_go_on_as_without_the_guard(scenario, tmp_path):
    plain, watched, own = both([compiled.build("case_capture"), *scenario], tmp_path)
    assert plain.lines == watched.lines and plain.stderr == watched.stderr == ""
    assert set(own) <= ALLOWED, own
    report, books = watched.report["after"], watched.books["after"]
    # It is not capturing any more: the device was looked at after the last allocation, pools included.
    assert report["devices"][0]["free_bytes"] == books[0]["free_bytes"]
    assert (report["devices"][0]["process"]["pool_idle_bytes"] or 0) == guarded.pool_idle(books[0])
    assert {k: v for k, v in report["devices"][0]["process"]["by_kind"].items() if v} == guarded.live_kinds(books[0])


def test_out_of_memory_in_a_capture(tmp_path):
    plain, watched, own = both([compiled.build("case_capture"), "out-of-memory"], tmp_path)
    assert plain.lines == watched.lines and "capture 1" in plain.lines
    assert set(own) <= ALLOWED | {"cuMemGetInfo_v2"} and own["cuMemGetInfo_v2"] >= 1
    [report] = guarded.written(tmp_path / "guarded", "oom")
    assert report["failure"]["bytes"] == 64 << 30 and report["devices"][0]["free_source"] == "cuMemGetInfo"
    guarded.assert_adds_up(report)


@pytest.mark.parametrize("program", ["driver", "13", "per-thread-static"])
def test_every_kind_made_during_a_capture(program, tmp_path):
    if program == "driver":
        command = [compiled.build("case_kinds"), "capture"]
    else:
        flags, libraries = test_sim_runtime.WAYS[program]
        command = [compiled.build("case_runtime_kinds", *flags, libraries=libraries), "capture"]
    plain, watched, own = both(command, tmp_path, VGSIM_DEVICES=2)
    assert plain.lines == watched.lines
    assert set(own) <= ALLOWED, own


def test_the_page_of_the_guard_s_own_driver_calls_is_complete():
    with open(os.path.join(guarded.TOP, "interpose/driver.c"), encoding="utf-8") as file:
        asked = set(re.findall(r'find\(&fn\.\w+, "(cu\w+)"\)', file.read()))
    with open(os.path.join(guarded.TOP, "docs/driver-calls.md"), encoding="utf-8") as file:
        rows = [line.split("|")[1:-1] for line in file if line.startswith("| `cu")]
    listed = [name for row in rows for name in re.findall(r"`(cu\w+)`", row[0])]
    assert len(asked) > 15 and sorted(listed) == sorted(asked)
    while_capturing = {name for row in rows if row[2].strip() != "no" for name in re.findall(r"`(cu\w+)`", row[0])}
    assert while_capturing == ALLOWED | {"cuMemGetInfo_v2"}
