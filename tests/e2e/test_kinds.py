# test_kinds.py -- one allocation of every kind: exact bytes in by_kind, gone after its free, equal to the simulation's books, through every way in.
# SPDX-License-Identifier: Apache-2.0
import os

import pytest

import compiled
import guarded
import steps
import test_sim_runtime

DRIVER = {
    "linked": ((), "plain"),
    "linked, captures": ((), "capture"),
    "per-thread stream": (("-DCUDA_API_PER_THREAD_DEFAULT_STREAM",), "plain"),
    "per-thread stream, captures": (("-DCUDA_API_PER_THREAD_DEFAULT_STREAM",), "capture"),
}
ARRAYS = {"array", "mipmap"}  # what they take only the driver knows
DRIVER_KINDS = {"device", "managed", "pinned", "registered", "pool", "vmm", "vmm_host", "imported", "graph"} | ARRAYS
RUNTIME_KINDS = {"device", "managed", "pinned", "registered", "pool", "graph"} | ARRAYS


def check(walked, kinds, devices):
    """At "made" every kind has the bytes that the program asked for, at "freed" none; on every device, in the report as in the books."""
    for line in walked.lines:
        if line.startswith("bytes "):
            _, device, kind, asked = line.split()
            assert walked.report["made"]["devices"][int(device)]["process"]["by_kind"][kind] == int(asked), line
    for name, report in walked.report.items():
        assert len(report["devices"]) == devices
        for index in range(devices):
            seen = {k: v for k, v in report["devices"][index]["process"]["by_kind"].items() if v}
            assert seen == guarded.live_kinds(walked.books[name][index]), (name, index)
            assert set(seen) == (kinds if name == "made" else set()), (name, index)
            assert report["devices"][index]["peak_bytes"] == walked.books[name][index]["peak_requested_bytes"]
        guarded.assert_adds_up(report)
    assert walked.report["freed"]["hooks"]["unknown_free_count"] == 0
    assert walked.report["freed"]["hooks"]["fallback_count"] == 0


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("way", DRIVER)
def test_driver_api(way, devices, tmp_path):
    flags, mode = DRIVER[way]
    walked = steps.walk([compiled.build("case_kinds", *flags), mode], tmp_path, VGSIM_DEVICES=devices)
    check(walked, DRIVER_KINDS, devices)


@pytest.mark.parametrize("mode", ["plain", "capture"])
@pytest.mark.parametrize("way", test_sim_runtime.WAYS)
def test_runtime_api(way, mode, tmp_path):
    flags, libraries = test_sim_runtime.WAYS[way]
    program = compiled.build("case_runtime_kinds", *flags, libraries=libraries)
    walked = steps.walk([program, mode], tmp_path, VGSIM_DEVICES=2)
    check(walked, RUNTIME_KINDS, 2)


def test_ctypes_finds_the_driver_by_dlopen_and_dlsym(tmp_path):
    script = os.path.join(compiled.HERE, "kinds_ctypes.py")
    walked = steps.walk([guarded.PYTHON, script], tmp_path, sim=False, LD_LIBRARY_PATH=guarded.SIM, VGSIM_MEMORY="24GiB")
    check(walked, {"device", "managed", "pinned", "pool", "vmm", "array", "graph"}, 1)
