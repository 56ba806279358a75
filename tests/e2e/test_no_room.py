# test_no_room.py -- no room, no right, no directory, other files under our numbers: no signal, nothing foreign touched, one clear line.
# SPDX-License-Identifier: Apache-2.0
import glob
import os
import resource
import subprocess

import pytest

import compiled
import guarded

MANY = 100_000  # live blocks: a record of some 6 MiB


@pytest.fixture
def mount(tmp_path):
    """mount(options) -> a directory on a tmpfs of its own; skips where that is not permitted."""
    made = []

    def do(options):
        place = tmp_path / f"mount{len(made)}"
        place.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"no right: mount: {done.stderr.strip()}")
        made.append(place)
        return place

    yield do
    for place in made:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture
def work(tmp_path):
    directory = tmp_path / "work"
    directory.mkdir()
    return directory


def run_case(directory, what="nothing", blocks=10, before=None, **options):
    program = [compiled.build("case_room"), what, str(blocks)]
    environment = guarded.environment(memory="4GiB", **options)
    return subprocess.run(program, env=environment, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                          check=False, preexec_fn=before)


def assert_unharmed(done):
    """The program's own output and status: 3, with its own out-of-memory error."""
    assert done.returncode == 3, (done.returncode, done.stderr)
    live, status = map(int, done.stdout.split())
    assert status == 2
    return live


def split(stderr):
    """(lines of the guard before and after the report, the report's lines)."""
    lines = stderr.splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith("VRAMGuard: out of memory")), len(lines))
    last = next((i for i in range(first + 1, len(lines)) if lines[i].startswith("VRAMGuard:")), first)
    return lines[:first] + lines[last + 1:], lines[first:last + 1]


def assert_reported(stderr):
    rest, report = split(stderr)
    assert report and report[0].startswith("VRAMGuard: out of memory on GPU 0"), stderr
    if report[-1].startswith("VRAMGuard: report "):
        assert os.path.exists(report[-1].split()[2].rstrip(",")), "the report that is named is not there"
    return rest


def assert_one_line_about(done, reason):
    rest = assert_reported(done.stderr)
    assert len(rest) == 1 and reason in rest[0] and rest[0].startswith("VRAMGuard: "), done.stderr


def fill(directory, leave=0):
    """Writes until there is no room but for `leave` bytes."""
    free = os.statvfs(directory).f_bavail * os.statvfs(directory).f_frsize
    with open(os.path.join(directory, "filler"), "wb") as file:
        file.write(bytes(max(free - leave, 0)))


def tracked(report):
    return report["devices"][0]["process"]["tracked_bytes"]


def assert_counts_all(report, live):
    """What did not fit is in every sum, and it is said how much it is."""
    number, text = report["hooks"]["saturated"].split(" ", 1)
    assert text == "allocations not itemised" and int(number) > 0
    assert tracked(report) == live
    guarded.assert_adds_up(report)


def test_full_disk_at_the_start_the_record_goes_elsewhere(mount, work):
    full, tmp = mount("size=1m"), work / "tmp"
    tmp.mkdir()
    fill(full)
    done = run_case(work, VRAMGUARD_DIR=full, TMPDIR=tmp)
    live = assert_unharmed(done)
    [line] = assert_reported(done.stderr)
    assert line == f"VRAMGuard: cannot write to {full} (No space left on device): records and reports go to {tmp}"
    assert os.listdir(full) == ["filler"]
    [report] = guarded.written(tmp, "oom")
    assert tracked(report) == live


def run_without_a_place(full, work):
    """VRAMGUARD_DIR and $TMPDIR are full, and /tmp may only be read, in a mount namespace of the program's own."""
    script = 'mount --rbind /tmp /tmp && mount -o remount,bind,ro /tmp && exec env LD_PRELOAD="$PRELOAD" "$0" nothing 10'
    environment = guarded.environment(memory="4GiB", VRAMGUARD_DIR=full, TMPDIR=full)
    environment["PRELOAD"] = environment.pop("LD_PRELOAD")
    done = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", script, compiled.build("case_room")], env=environment, cwd=work,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    if "mount:" in done.stderr or "unshare:" in done.stderr:
        pytest.skip(f"no right: {done.stderr.strip()}")
    return done


def test_no_place_at_all_the_record_is_in_memory(mount, work):
    full = mount("size=1m")
    fill(full)
    done = run_without_a_place(full, work)
    assert_unharmed(done)
    rest = assert_reported(done.stderr)
    assert rest[0] == (f"VRAMGuard: cannot write to {full} (No space left on device): "
                       "the record is kept in memory and will not survive the process")
    assert len(rest) == 1, done.stderr
    assert os.listdir(full) == ["filler"] and os.listdir(work) == []


def test_disk_fills_up_in_mid_run(mount, work):
    """The first MiB is had; the rest is counted and not listed."""
    small = mount("size=1m")
    done = run_case(work, blocks=MANY, VRAMGUARD_DIR=small, VRAMGUARD_KEEP="always", TMPDIR=work)
    live = assert_unharmed(done)
    assert_one_line_about(done, "No space left on device")
    [record] = guarded.records(small)
    report = guarded.report_of(record)
    assert_counts_all(report, live)


@pytest.mark.parametrize("limit", [0, 4096, 100_000, 1 << 20])
def test_small_file_size_limit_is_no_signal(limit, work):
    """`ulimit -f`. Below what a record needs there is none; a MiB is enough for a record and not for an incident's copy of a bigger one."""
    done = run_case(work, blocks=20_000, before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    assert_unharmed(done)
    rest, report = split(done.stderr)
    assert len(rest) == 1 and "File too large" in rest[0], done.stderr
    assert all(os.stat(p).st_size <= limit for p in glob.glob(str(work / "*")))


def test_file_size_limit_set_in_mid_run(work):
    done = run_case(work, "limit", MANY, VRAMGUARD_KEEP="always")
    live = assert_unharmed(done)
    [record] = guarded.records(work)
    assert os.stat(record).st_size <= 1 << 20
    assert_one_line_about(done, "File too large")
    report = guarded.report_of(record)
    assert_counts_all(report, live)


def test_read_only_directory(mount, work):
    place, tmp = mount("size=1m,ro"), work / "tmp"
    tmp.mkdir()
    done = run_case(work, VRAMGUARD_DIR=place, TMPDIR=tmp)
    live = assert_unharmed(done)
    [line] = assert_reported(done.stderr)
    assert line == f"VRAMGuard: cannot write to {place} (Read-only file system): records and reports go to {tmp}"
    assert tracked(guarded.written(tmp, "oom")[0]) == live


@pytest.mark.parametrize("kind, why", [("missing", "No such file or directory"), ("file", "Not a directory"), ("open", "it is writable by everybody and has no sticky bit")])
def test_directory_that_will_not_do(kind, why, work):
    """open: anybody may write there and rename what is ours."""
    place, tmp = work / "place", work / "tmp"
    tmp.mkdir()
    if kind == "file":
        place.write_text("mine")
    if kind == "open":
        place.mkdir()
        place.chmod(0o777)
    done = run_case(work, VRAMGUARD_DIR=place, TMPDIR=tmp)
    assert_unharmed(done)
    [line] = assert_reported(done.stderr)
    assert line == f"VRAMGuard: cannot write to {place} ({why}): records and reports go to {tmp}"
    assert len(guarded.written(tmp, "oom")) == 1
    assert kind != "open" or os.listdir(place) == []
    assert kind != "file" or place.read_text() == "mine"


def test_world_writable_directory_with_the_sticky_bit_is_taken(work):
    place = work / "place"
    place.mkdir()
    place.chmod(0o1777)
    done = run_case(work, VRAMGUARD_DIR=place)
    assert_unharmed(done)
    assert assert_reported(done.stderr) == []
    assert len(guarded.written(place, "oom")) == 1


def test_planted_links_are_not_followed(work):
    """Links at every name that the record and the incident could get in the next seconds."""
    place, victim = work / "place", work / "victim"
    place.mkdir()
    victim.write_text("not yours")
    script = ("import os, socket, time, sys\n"
              "stem = f'vramguard.{socket.gethostname().split(\".\")[0]}.{os.getpid()}-'\n"
              "for s in range(int(time.time()), int(time.time()) + 10):\n"
              "    for end in ('.vgr', '.oom-1.vgr', '.oom-1.json', '-2.oom-1.vgr', '-2.oom-1.json'):\n"
              f"        os.symlink('{victim}', f'{place}/{{stem}}{{s}}{{end}}')\n"
              "os.execv(sys.argv[1], sys.argv[1:])\n")
    done = guarded.run([guarded.PYTHON, "-c", script, compiled.build("case_room"), "nothing", 10], work, memory="4GiB", VRAMGUARD_DIR=place,
                       VRAMGUARD_KEEP="always")
    assert_unharmed(done)
    assert victim.read_text() == "not yours"
    [record] = [p for p in guarded.records(place) if not os.path.islink(p)]
    assert record.endswith("-2.vgr") and guarded.report_of(record)["failure"]


def test_program_that_closes_all_descriptors_keeps_its_own_files(work):
    done = run_case(work, "close-all", MANY, VRAMGUARD_KEEP="always")
    live = assert_unharmed(done)
    assert (work / "own").read_text() == "the program's own bytes\n"
    [record] = guarded.records(work)
    report = guarded.report_of(record)
    assert_counts_all(report, live)
    assert_one_line_about(done, "Bad file descriptor")


def test_closed_stderr_stays_silent(work):
    done = run_case(work, "close-stderr")
    assert_unharmed(done)
    assert done.stderr == "" and len(guarded.written(work, "oom")) == 1


def test_another_file_at_descriptor_2_gets_nothing(work):
    done = run_case(work, "swap-stderr")
    assert_unharmed(done)
    assert done.stderr == "" and (work / "stderr-of-its-own").read_text() == ""
    assert len(guarded.written(work, "oom")) == 1


def test_tool_that_is_missing_and_another_stderr_says_nothing_either(work):
    done = run_case(work, "swap-stderr", **guarded.without_tool(work))
    assert_unharmed(done)
    assert done.stderr == "" and (work / "stderr-of-its-own").read_text() == ""
