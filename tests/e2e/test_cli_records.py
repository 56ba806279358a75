# test_cli_records.py -- `report`, `run` and `doctor` over records of real processes on the simulated GPU.
# SPDX-License-Identifier: Apache-2.0
"""End-to-end tests of the command line with records."""

import json
import os
import random
import re
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
TOOL = str(BUILD / "vramguard")
MIB = 1 << 20

# Does what the lines of its standard input say, answers each with one line, and ends at the end of the input.
HOLDER = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, held = ctypes.c_void_p(), []
assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
def allocate(mib):
    address = ctypes.c_uint64()
    status = cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(mib << 20))
    if status == 0:
        held.append(address)
    return status
def at_another_site(mib):
    return allocate(mib)
print("ready", flush=True)
for line in sys.stdin:
    word, number = line.split()
    print({"allocate": allocate, "other": at_another_site}[word](int(number)), flush=True)
"""


def call(*arguments, **more):
    return subprocess.run([TOOL, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="replace", timeout=60, **more)


def report(*arguments):
    result = call("report", "--json", *arguments)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return json.loads(result.stdout)


class Holder:
    """A guarded process on a simulated GPU of 1 GiB."""

    def __init__(self, directory, *options):
        self.directory = directory
        environment = {**os.environ, "VGSIM_CONTEXT": "64MiB"}
        self.run = subprocess.Popen([TOOL, "run", "--sim=1GiB", f"--dir={directory}", *options, "--", sys.executable, "-c", HOLDER],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        assert self.run.stdout.readline() == "ready\n"
        children = Path(f"/proc/{self.run.pid}/task/{self.run.pid}/children").read_text().split()
        self.pid = int(children[0])

    def do(self, word, number):
        self.run.stdin.write(f"{word} {number}\n")
        self.run.stdin.flush()
        return int(self.run.stdout.readline())

    def end(self):
        _, error = self.run.communicate(timeout=60)
        return error

    def record(self):
        found = [path for path in self.directory.glob("*.vgr") if ".oom-" not in path.name]
        assert len(found) == 1
        return found[0]


@pytest.fixture
def holder(tmp_path):
    made = []

    def make(*options):
        made.append(Holder(tmp_path, *options))
        return made[-1]

    yield make
    for one in made:
        if one.run.poll() is None:
            one.run.kill()
            os.kill(one.pid, signal.SIGKILL)
            one.run.communicate()


def tracked(document):
    return document["devices"][0]["process"]["tracked_bytes"]


# --- live and dead --------------------------------------------------------------------------------

def test_report_of_a_live_process(holder, tmp_path):
    live = holder()
    assert live.do("allocate", 96) == 0
    assert live.do("allocate", 32) == 0
    for target in (live.pid, live.record(), tmp_path):
        document = report(target)
        assert document["kind"] == "snapshot"
        assert document["process"]["alive"] is True
        assert document["process"]["pid"] == live.pid
        assert tracked(document) == 128 * MIB
    text = call("report", live.pid)
    assert text.returncode == 0 and text.stdout.startswith("VRAMGuard: ")
    live.end()


def test_report_of_a_live_process_whose_file_was_removed(holder):
    live = holder()
    live.do("allocate", 96)
    live.record().unlink()
    assert tracked(report(live.pid)) == 96 * MIB
    live.end()


def test_report_does_not_take_another_file_of_the_same_name(holder):
    live = holder()
    live.do("allocate", 96)
    path = live.record()
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
    live.do("allocate", 32)
    assert tracked(report(live.pid)) == 128 * MIB
    live.end()


def test_killed_process_leaves_its_record_and_run_says_where(holder):
    dying = holder()
    dying.do("allocate", 96)
    os.kill(dying.pid, signal.SIGKILL)
    error = dying.end()
    path = dying.record()
    assert dying.run.returncode == -signal.SIGKILL
    assert error.splitlines()[-1] == (f"VRAMGuard: peak 96.0 MiB on GPU 0; no incident; killed by signal 9 (Killed); "
                                      f"`vramguard report {path}` shows what was live")
    document = report(path)
    assert document["kind"] == "exit"
    assert document["process"]["alive"] is False
    assert document["process"]["exit"] is None
    assert tracked(document) == 96 * MIB


def test_clean_end_removes_the_record(holder, tmp_path):
    quiet = holder()
    quiet.do("allocate", 96)
    error = quiet.end()
    assert error == "VRAMGuard: peak 96.0 MiB on GPU 0; no incident; record removed\n"
    assert list(tmp_path.iterdir()) == []


def test_directory_means_its_newest_record(holder, tmp_path):
    for number, size in enumerate((16, 32, 64)):
        one = holder("--keep=always")
        one.do("allocate", size)
        one.end()
        path = next(path for path in tmp_path.glob("*.vgr") if f".{one.pid}-" in path.name)
        os.utime(path, (1000 + number, 1000 + number))
    document = report(tmp_path)
    assert document["process"]["pid"] == one.pid
    assert document["kind"] == "exit" and document["process"]["exit"] == {"code": 0}


def test_directory_passes_over_a_damaged_record(holder, tmp_path):
    one = holder("--keep=always")
    one.do("allocate", 16)
    one.end()
    damaged = tmp_path / "vramguard.h.1-2.vgr"
    damaged.write_bytes(b"x" * 8192)
    os.utime(next(p for p in tmp_path.glob("*.vgr") if p != damaged), (1000, 1000))
    result = call("report", "--json", tmp_path)
    assert result.returncode == 0 and json.loads(result.stdout)["process"]["pid"] == one.pid
    assert len(result.stderr.splitlines()) == 1 and str(damaged) in result.stderr
    alone = tmp_path / "alone"
    alone.mkdir()
    damaged.rename(alone / damaged.name)
    result = call("report", alone)
    assert result.returncode == 2 and len(result.stderr.splitlines()) == 1


def test_process_above_the_guarded_one_means_that_one(holder):
    one = holder()
    one.do("allocate", 16)
    assert report(one.run.pid)["process"]["pid"] == one.pid
    two = holder()
    two.do("allocate", 32)
    result = call("report", os.getpid())
    assert result.returncode == 2 and len(result.stderr.splitlines()) == 1
    assert {str(one.pid), str(two.pid)} <= set(result.stderr.split())


# --- incidents ------------------------------------------------------------------------------------

@pytest.fixture
def failed(holder):
    """Two failures with 100 and 300 MiB live, then 50 MiB more."""
    one = holder()
    one.do("allocate", 100)
    assert one.do("allocate", 2000) == 2
    one.do("allocate", 200)
    assert one.do("other", 3000) == 2
    one.do("allocate", 50)
    error = one.end()
    assert "2 incidents" in error.splitlines()[-1]
    return one.record()


def test_report_chooses_the_incident(failed):
    assert report(failed)["failure"]["bytes"] == 3000 * MIB
    assert report("--incident=2", failed)["failure"]["bytes"] == 3000 * MIB
    assert report("--incident=1", failed)["failure"]["bytes"] == 2000 * MIB
    now = report("--now", failed)
    assert now["kind"] == "exit" and now["failure"] is None and tracked(now) == 350 * MIB
    documents = report("--incident=all", failed)
    assert [document["failure"]["bytes"] for document in documents] == [2000 * MIB, 3000 * MIB]
    text = call("report", "--incident", "all", failed)
    assert text.returncode == 0 and text.stdout.count("VRAMGuard: out of memory") == 2


def test_report_of_an_incident_is_of_its_moment(failed):
    assert tracked(report("--incident=1", failed)) == 100 * MIB
    assert tracked(report("--incident=2", failed)) == 300 * MIB
    own = failed.with_name(failed.name[:-4] + ".oom-1.vgr")
    assert tracked(report(own)) == 100 * MIB


def test_report_says_where_the_incident_has_lost_its_file(failed):
    failed.with_name(failed.name[:-4] + ".oom-1.vgr").unlink()
    document = report("--incident=1", failed)
    assert document["failure"]["bytes"] == 2000 * MIB
    assert any("own file is not there" in note for note in document["hooks"]["notes"])
    assert not any("own file" in note for note in report("--incident=2", failed)["hooks"]["notes"])


def keys_of(value, path=""):
    """Of all objects; those of by_kind are kinds."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield path + key
            yield from keys_of(below, f"{path}{key}.")
    elif isinstance(value, list):
        for item in value:
            yield from keys_of(item, path)


def test_every_key_of_a_report_is_in_its_page(failed):
    page = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]*)`", (ROOT / "docs/report.md").read_text()))))
    keys = set(keys_of(report("--incident=1", failed)))
    assert len(keys) > 150 and not {key for key in keys if key.split(".")[-1] not in page}
    assert "failure.error.name" in keys and "sites.stack.lang" in keys and "devices.process.contexts.stack.module" in keys


def test_json_report_means_the_record_beside_it(failed, tmp_path):
    written = failed.with_suffix(".oom-1.json")
    assert report(written)["failure"]["bytes"] == 2000 * MIB
    alone = tmp_path / "alone.json"
    alone.write_text(written.read_text())
    result = call("report", alone)
    assert result.returncode == 2 and len(result.stderr.splitlines()) == 1 and "alone.vgr" in result.stderr


def test_report_of_an_incident_that_is_not_there(failed, holder):
    result = call("report", "--incident=9", failed)
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr == f"vramguard report: {failed}: no incident 9: the last one is 2\n"
    quiet = holder("--keep=always")
    quiet.do("allocate", 1)
    path = next(path for path in quiet.directory.glob(f"*.{quiet.pid}-*.vgr"))
    assert call("report", "--incident=1", path).stderr == f"vramguard report: {path}: no incident 1: there was none\n"
    assert call("report", "--incident=all", path).returncode == 2
    quiet.end()


def test_report_made_again_is_the_one_that_was_written(failed):
    own = failed.with_name(failed.name[:-4] + ".oom-2.vgr")
    written = json.loads(own.with_suffix(".json").read_text())
    again = report(own)
    for document in (written, again):
        document["process"].pop("alive")
    assert written == again


def test_report_at_the_end_is_of_the_end(failed):
    document = json.loads(failed.with_name(failed.name[:-4] + ".exit-1.json").read_text())
    assert document["kind"] == "exit" and document["failure"] is None
    assert document["process"]["alive"] is False and document["process"]["exit"] == {"code": 0}
    assert tracked(document) == 350 * MIB


# --- damage ---------------------------------------------------------------------------------------

def test_truncated_records_are_refused(failed, tmp_path):
    content = failed.with_name(failed.name[:-4] + ".oom-2.vgr").read_bytes()  # the used part, no more
    path = tmp_path / "cut.vgr"
    for length in [1, 7, 8, 100, 4095, 4096, 4097, 8192, 40000, len(content) // 2, len(content) - 4096, len(content) - 1]:
        path.write_bytes(content[:length])
        result = call("report", path)
        assert result.returncode == 2 and result.stdout == "", length
        assert len(result.stderr.splitlines()) == 1


def test_records_with_random_damage_never_break_the_tool(failed, tmp_path):
    source = random.Random(11)
    content = failed.read_bytes()
    path = tmp_path / "flipped.vgr"
    refused = 0
    for _ in range(60):
        damaged = bytearray(content)
        for _ in range(source.choice((1, 5, 50))):
            damaged[source.randrange(source.choice((256, 24000, len(damaged))))] = source.randrange(256)
        path.write_bytes(damaged)
        result = call("report", "--now", "--json", path)
        assert result.returncode in (0, 2), result
        assert len(result.stderr.splitlines()) == (1 if result.returncode else 0)
        refused += result.returncode == 2
        if result.returncode == 0:
            json.loads(result.stdout)
    assert refused


# --- the library's call ---------------------------------------------------------------------------

def from_guard(record, stem, *arguments, limit="--limit=20000"):
    with open(record, "rb") as file:
        os.dup2(file.fileno(), 3, inheritable=True) if file.fileno() != 3 else os.set_inheritable(3, True)
        return subprocess.run([TOOL, "report", "--from-guard", "--fd=3", f"--stem={stem}", limit, *arguments], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, pass_fds=(3,))


@pytest.fixture
def own(failed, tmp_path):
    copied = tmp_path / "again" / "vramguard.h.1-2.oom-1.vgr"
    copied.parent.mkdir()
    shutil.copy(failed.with_name(failed.name[:-4] + ".oom-1.vgr"), copied)
    return copied


def test_from_guard_writes_text_and_json(own):
    stem = str(own)[:-4]
    result = from_guard(own, stem, "--report=text,json")
    assert result.returncode == 0 and result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines[0].startswith("VRAMGuard: ") and lines[-1].startswith("VRAMGuard: ")
    assert "oom-1.json" in lines[-1]
    mode = os.stat(stem + ".json").st_mode
    assert stat.S_IMODE(mode) == 0o600
    assert json.loads(Path(stem + ".json").read_text())["failure"]["bytes"] == 2000 * MIB


def test_from_guard_writes_only_what_is_asked_for(own):
    stem = str(own)[:-4]
    assert from_guard(own, stem, "--report=text").stderr != ""
    assert not os.path.exists(stem + ".json")
    silent = from_guard(own, stem, "--report=json")
    assert silent.returncode == 0 and silent.stderr == ""
    assert os.path.exists(stem + ".json")


def test_from_guard_never_writes_over_a_file_or_through_a_link(own, tmp_path):
    stem = str(own)[:-4]
    Path(stem + ".json").write_text("mine")
    result = from_guard(own, stem, "--report=text,json")
    assert result.returncode == 0
    assert result.stderr.startswith("VRAMGuard: out of memory") and "oom-1.json" not in result.stderr
    assert Path(stem + ".json").read_text() == "mine"
    os.unlink(stem + ".json")
    os.symlink(tmp_path / "target", stem + ".json")
    assert from_guard(own, stem, "--report=json").returncode == 2
    assert not (tmp_path / "target").exists()


def test_from_guard_says_nothing_about_a_damaged_record(tmp_path):
    path = tmp_path / "vramguard.h.1-2.oom-1.vgr"
    path.write_bytes(b"VRAMGRD\0" + b"\xff" * 9000)
    result = from_guard(path, str(path)[:-4], "--report=text,json")
    assert result.returncode == 2 and result.stderr == "" and result.stdout == ""
    assert list(tmp_path.iterdir()) == [path]


# --- doctor ---------------------------------------------------------------------------------------

def test_doctor_shows_that_the_hooks_are_reached():
    result = call("doctor", "--json", "--sim=1GiB", "--", sys.executable, "-c", HOLDER)
    program = json.loads(result.stdout)["program"]
    assert result.returncode == 0
    assert program["finding"] == "the hooks are reached"
    assert program["driver_loaded"] is True
    process, = program["processes"]
    assert process["reached"] == {"driver": True, "runtime": False, "torch": False}
    assert process["events"] > 0 and process["fallback_count"] == 0


def test_doctor_finds_a_program_that_drops_the_guard():
    script = HOLDER.replace('print("ready", flush=True)', "import time; time.sleep(0.5)")
    result = call("doctor", "--json", "--sim=1GiB", "--", "env", "-u", "LD_PRELOAD", sys.executable, "-c", script)
    program = json.loads(result.stdout)["program"]
    assert result.returncode == 1
    assert "LD_PRELOAD was dropped" in program["finding"]


def test_doctor_leaves_nothing_behind(tmp_path):
    call("doctor", "--sim=1GiB", "--", sys.executable, "-c", HOLDER, env={**os.environ, "TMPDIR": str(tmp_path)}, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []
