# test_keeper.py -- the guarded program does not notice that a report is being made.
# SPDX-License-Identifier: Apache-2.0
#
# keeper_check.c with keeper_threads.c links interpose/keeper.c and is the program; keeper_tool.c stands in for `vramguard`.
"""End-to-end tests of interpose/keeper.c."""

import os
import platform
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "tests/e2e"
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-g", "-fno-omit-frame-pointer", "-pthread", f"-I{ROOT}"]
BUILDS = {
    "plain": ([os.environ.get("CC", "gcc")], []),
    "stack-protector": (["gcc"], ["-fstack-protector-all", "-O0"]),  # -O0: every function looks at its thread
    "clang-tsan": (["clang"], ["-fsanitize=thread"]),
    "gcc-asan": (["gcc"], ["-fsanitize=address,undefined"]),
}


def compile_c(compiler, flags, sources, target):
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"no such compiler: {compiler[0]}")
    subprocess.run([*compiler, *FLAGS, *flags, *map(str, sources), "-o", str(target)], check=True)
    return str(target)


@pytest.fixture(scope="module")
def tool(tmp_path_factory):
    compiler, flags = BUILDS["plain"]
    return compile_c(compiler, flags, [HERE / "keeper_tool.c"], tmp_path_factory.mktemp("tool") / "keeper_tool")


@pytest.fixture(scope="module")
def checks(tmp_path_factory):
    made = {}

    def build(name):
        if name not in made:
            compiler, flags = BUILDS[name]
            sources = [HERE / "keeper_check.c", HERE / "keeper_threads.c", ROOT / "interpose/keeper.c"]
            made[name] = compile_c(compiler, flags, sources, tmp_path_factory.mktemp(name) / "keeper_check")
        return made[name]

    return build


def expect_ok(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **more)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["ok"]), done.stdout + done.stderr
    assert "Sanitizer" not in done.stderr, done.stderr
    return done


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def read_when_there(path):
    deadline = time.monotonic() + 10
    while not path.exists():
        assert time.monotonic() < deadline, "the tool was not started"
        time.sleep(0.01)
    return [int(word) for word in path.read_text().split()]


def expect_gone(pids, within):
    started = time.monotonic()
    while any(is_alive(pid) for pid in pids):
        assert time.monotonic() - started < within, f"still there: {[p for p in pids if is_alive(p)]}"
        time.sleep(0.01)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize(
    "scenario",
    [
        "sigchld_handler",
        "waitpid_loop",
        "sigchld_ignored",
        "subreaper",
        "tool_missing",
        "blocked_in_wait4",
        "sigterm",
        "fork_meanwhile",
        "vfork_child",
        "several_threads",
        "cancellation",
        "pipe_ends",
    ],
)
def test_program_sees_no_child(build, scenario, checks, tool):
    expect_ok([checks(build), scenario, tool])


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("scenario", ["thread_ends", "killed_at_the_limit"])
def test_program_sees_no_child_and_tool_tells(build, scenario, checks, tool, tmp_path):
    expect_ok([checks(build), scenario, tool, str(tmp_path / "told")])


def test_program_that_is_pid_1_sees_no_child(checks, tool):
    namespace = ["unshare", "-pf", "--mount-proc"]
    if shutil.which("unshare") is None or subprocess.run([*namespace, "true"], capture_output=True).returncode != 0:
        pytest.skip("no right to make a pid namespace")
    expect_ok([*namespace, checks("plain"), "pid_1", tool])


def test_two_hundred_runs_leave_nothing(checks, tool):
    print(expect_ok([checks("plain"), "two_hundred", tool]).stdout)


@pytest.mark.parametrize("scenario", ["what_the_tool_gets", "without_close_range"])
def test_tool_gets_its_environment_and_nothing_else(scenario, checks, tool, tmp_path):
    dump, incident = tmp_path / "dump", tmp_path / "incident"
    incident.write_text("bytes of an incident")
    odd = {
        "LD_PRELOAD": "",
        "LD_LIBRARY_PATH": "/nowhere",
        "DEBUGINFOD_URLS": "http://127.0.0.1:1",
        "VRAMGUARD_TOOL": "x",
        "VRAMGUARD_": "x",
    }
    kept = {"LDX": "1", "VRAM": "2", "EMPTY": "", "DEBUGINFOD_URLS_2": "3", "LONG": "x" * 100_000}
    path = tmp_path / "stderr"
    with path.open("w") as stderr:
        done = subprocess.run(
            [checks("plain"), scenario, tool, dump, incident], env={**os.environ, **odd, **kept},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True, timeout=60,
        )
    assert done.stdout == "ok\n"
    assert path.read_text() == "the tool speaks\n"
    facts = {}
    for line in dump.read_text().splitlines():
        key, _, value = line.partition(" ")
        facts.setdefault(key, []).append(value)
    assert facts["fd"] == ["0 /dev/null", "1 /dev/null", f"2 {path}", f"3 {incident}"]
    assert facts["incident"] == ["bytes of an incident"]
    assert facts["arg"] == ["vramguard", "dump", str(dump), "an argument"]
    expected = {k: v for k, v in os.environ.items() if not k.startswith(("LD_", "VRAMGUARD_")) and k not in odd}
    expected.update(kept)
    got = dict(line.partition("=")[::2] for line in facts["env"])
    assert got == expected
    assert facts["oom"] == ["1000"]
    assert facts["sigchld"] == ["default"]
    masks = {line.split(":")[0]: int(line.split()[1], 16) for line in facts["status"] if ":" in line and "/" not in line}
    assert masks["SigBlk"] == 0
    assert masks["SigCgt"] == 0
    assert masks["SigIgn"] & (1 << (signal.SIGCHLD - 1)) == 0


def test_program_killed_takes_keeper_and_tool_with_it(checks, tool, tmp_path):
    told = tmp_path / "told"
    with subprocess.Popen([checks("plain"), "wait_to_be_killed", tool, told]) as program:
        pids = read_when_there(told)
        assert program.pid not in pids and all(is_alive(pid) for pid in pids)
        program.kill()
        program.wait()
    expect_gone(pids, 0.4)


def test_program_that_ends_takes_keeper_and_tool_with_it(checks, tool, tmp_path):
    told = tmp_path / "told"
    command = [checks("plain"), "exit_meanwhile", tool, told]
    assert subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60).returncode == 0
    expect_gone(read_when_there(told), 0.4)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("level", ["-O0", "-O2", "-O3"])
def test_keeper_calls_no_function_of_libc(compiler, level, tmp_path):
    """Neither ours nor, by the compiler, memset, memcpy or strlen: a lazily bound or intercepted call would look for a thread."""
    made = compile_c([compiler], ["-fPIC", level, "-c"], [ROOT / "interpose/keeper.c"], tmp_path / "keeper.o")
    symbols = subprocess.run(["nm", "-u", made], capture_output=True, text=True, check=True).stdout.split()
    own = {"U", "_GLOBAL_OFFSET_TABLE_"}
    assert [s for s in symbols if s not in own and not s.startswith("__aarch64_")] == []


def test_keeper_is_not_instrumented(tmp_path):
    """Its tasks have no thread of ThreadSanitizer's: one call into it is the end."""
    made = compile_c(["clang"], ["-fPIC", "-fsanitize=thread", "-c"], [ROOT / "interpose/keeper.c"], tmp_path / "keeper.o")
    symbols = subprocess.run(["nm", "-u", made], capture_output=True, text=True, check=True).stdout.split()
    assert set(symbols) <= {"U", "_GLOBAL_OFFSET_TABLE_", "__tsan_init"}


def test_keeper_compiles_for_the_other_machine(tmp_path):
    other = "aarch64-linux-gnu-gcc" if platform.machine() == "x86_64" else "x86_64-linux-gnu-gcc"
    compile_c([other], ["-fPIC", "-Wall", "-Wextra", "-Werror", "-c"], [ROOT / "interpose/keeper.c"], tmp_path / "keeper.o")
