# test_bare_root.py -- a root without libunwind, without libgcc_s and without the tool: it counts, records, and says what it cannot do.
# SPDX-License-Identifier: Apache-2.0
import glob
import os
import subprocess

import pytest

import guarded
from guarded import MIB

OOM = os.path.join(guarded.EXAMPLES, "oom")


def hidden(names, command, directory, **options):
    """Runs a program in a mount namespace of its own, in which an empty file lies over these libraries."""
    empty = directory / "empty"
    empty.write_bytes(b"")
    paths = [os.path.realpath(p) for n in names for d in ("/lib", "/usr/lib", "/lib64", "/usr/lib64")
             for p in glob.glob(f"{d}/{n}") + glob.glob(f"{d}/*-linux-gnu/{n}")]
    mounts = "".join(f"mount --bind '{empty}' '{path}' || exit 99\n" for path in sorted(set(paths)))
    inner = " ".join(f"'{k}={v}'" for k, v in guarded.environment(**options).items()
                     if k.startswith(("LD_", "VGSIM_", "VRAMGUARD_")))
    script = f"{mounts}exec env {inner} {' '.join(map(str, command))}"
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], cwd=directory, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode in (1, 99) and "unshare" in done.stderr or done.returncode == 99:
        pytest.skip("no right to make a mount namespace")
    return done


@pytest.mark.parametrize("names, unwinder", [
    (["libunwind.so.8*"], "libgcc_s"),
    (["libunwind.so.8*", "libgcc_s.so.1"], "none"),
])
def test_it_counts_and_records_without_an_unwinder(names, unwinder, tmp_path):
    done = hidden(names, [OOM], tmp_path, memory="4GiB")
    assert done.returncode == 1 and "loaded 12 pieces" in done.stdout
    [report] = guarded.written(tmp_path, "oom")
    guarded.assert_adds_up(report)
    assert report["devices"][0]["process"]["tracked_bytes"] == 12 * 256 * MIB
    native = guarded.frames(report["failure"]["stack"], "native")
    said = [line for line in done.stderr.splitlines() if "no native stacks" in line]
    assert (len(said), bool(native)) == ((0, True) if unwinder == "libgcc_s" else (1, False))


def test_it_counts_and_records_without_the_tool(tmp_path):
    library = tmp_path / "libvramguard.so"
    library.write_bytes(open(guarded.LIBRARY, "rb").read())
    env = guarded.environment(memory="4GiB", PATH="/usr/bin:/bin")
    env["LD_PRELOAD"] = env["LD_PRELOAD"].replace(guarded.LIBRARY, str(library))
    done = subprocess.run([OOM], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    lines = done.stderr.splitlines()
    [incident] = glob.glob(str(tmp_path / "*.oom-1.vgr"))
    assert done.returncode == 1 and len(lines) == 5 and lines[-1].endswith(incident)
    guarded.assert_adds_up(guarded.report_of(incident))
