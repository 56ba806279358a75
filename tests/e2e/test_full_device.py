# test_full_device.py -- a device that others have filled: the first call fails, and the report says who holds it.
# SPDX-License-Identifier: Apache-2.0
import os

import pytest

import guarded
from guarded import MIB

KNOBS = {"memory": "8GiB", "VGSIM_OTHER": "991:Xorg:7900MiB"}


def assert_names_the_other(report, via):
    failure, [device] = report["failure"], report["devices"]
    assert failure["requested_via"] == via and failure["bytes"] is None and failure["error"]["code"] == 2
    assert [(o["name"], o["bytes"]) for o in device["others"]] == [("Xorg", 7900 * MIB)]
    assert device["process"]["tracked_bytes"] == 0 and failure["device"] == 0
    assert report["verdict"]["class"] == "other-process"
    guarded.assert_adds_up(report)


def test_a_context_that_the_runtime_cannot_make_is_a_report(tmp_path):
    done = guarded.run([os.path.join(guarded.EXAMPLES, "leak"), "3"], tmp_path, **KNOBS)
    assert done.returncode == 1 and "Xorg" in done.stderr
    [report] = guarded.written(tmp_path, "oom")
    assert_names_the_other(report, "cudaMalloc")
    assert any(f["function"] == "decode_frame" for f in report["failure"]["stack"])


def test_torch_on_a_full_device_gets_a_report_too(tmp_path):
    guarded.need_torch()
    program = tmp_path / "first.py"
    program.write_text("import torch\nx = torch.empty(10, device='cuda')\n")
    done = guarded.run([guarded.TORCH_PYTHON, program], tmp_path, **KNOBS)
    assert done.returncode == 1 and "out of memory" in done.stderr
    [report] = guarded.written(tmp_path, "oom")
    assert_names_the_other(report, "cudaDeviceGetStreamPriorityRange")
    assert guarded.frames(report["failure"]["stack"], "python")[0]["line"] == 2


@pytest.mark.parametrize("knobs", [{"VGSIM_FAIL": "cuMemAlloc_v2:1:2"}, {"memory": "1GiB"}])
def test_a_failure_that_the_driver_told_is_one_report(knobs, tmp_path):
    """The runtime's status 2 above a refused driver call is that call's failure, not one more."""
    guarded.run([os.path.join(guarded.EXAMPLES, "leak"), "2000"], tmp_path, **{"memory": "8GiB", **knobs})
    [report] = guarded.written(tmp_path, "oom")
    assert report["failure"]["api"] == "cuMemAlloc_v2" and report["failure"]["bytes"] == 2 * MIB
