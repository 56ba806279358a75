# test_device_script.py -- tests/device.sh, the table for a real device, on the simulated one.
# SPDX-License-Identifier: Apache-2.0
import os
import re
import subprocess

import guarded


def test_every_row_is_ok_on_the_simulation():
    """Rows of torch are skipped where there is none; those of a real device alone say so."""
    script = os.path.join(guarded.TOP, "tests/device.sh")
    done = subprocess.run(["bash", script], env={**os.environ, "SIM": "1"}, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = re.findall(r"^(ok|NOT OK|skipped) {2,}(.+?) +[\d.]+ s ", done.stdout, flags=re.M)
    names = [name for verdict, name in rows if verdict == "ok"]
    assert len(names) >= 30 and len(set(names)) == len(names)
    assert {"look-ups: static runtime", "kinds: shared runtime, per-thread stream, plain", "case: capture", "out of memory: driver API"} <= set(names)
    assert all(re.search("torch|nvcc|other_device", name) for verdict, name in rows if verdict == "skipped"), done.stdout
    assert done.stdout.endswith("on the simulation\n")


def test_without_a_gpu_it_says_so(tmp_path):
    """With an nvidia-smi that knows none."""
    fake = tmp_path / "nvidia-smi"
    fake.write_text("#!/bin/sh\necho 'No devices were found'\n")
    fake.chmod(0o755)
    env = {k: v for k, v in os.environ.items() if k != "SIM"} | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", os.path.join(guarded.TOP, "tests/device.sh")], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 77 and done.stdout.startswith("no GPU: ") and done.stdout.count("\n") == 1
