# test_cli.py -- the command line: every bad argument is one clear line and status 2; `run` is transparent.
# SPDX-License-Identifier: Apache-2.0
"""End-to-end tests of `vramguard` itself. No GPU is used, simulated or not."""

import json
import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/check"))
import hooks_table  # noqa: E402

BUILD = ROOT / os.environ.get("BUILD", "build")
TOOL = str(BUILD / "vramguard")
COMMANDS = ["run", "report", "doctor", "hooks", "help", "version"]


def call(*arguments, **more):
    more.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True, errors="replace", timeout=60, **more)


def assert_usage_error(result, *words):
    lines = result.stderr.splitlines()
    assert result.returncode == 2, result
    assert len(lines) == 1 and lines[0].startswith("vramguard"), result.stderr
    assert result.stdout == ""
    for word in words:
        assert word in lines[0], lines[0]


# --- arguments ------------------------------------------------------------------------------------

BAD = [
    ([], "no command"),
    (["frobnicate"], "frobnicate"),
    (["--frobnicate"], "--frobnicate"),
    (["run"], "no program"),
    (["run", "--"], "no program"),
    (["run", "--frobnicate", "true"], "--frobnicate"),
    (["run", "--keep=zebra", "true"], "--keep=zebra"),
    (["run", "--keep=zebra", "true"], "auto"),
    (["run", "--record-size=12parsecs", "true"], "--record-size"),
    (["run", "--report-timeout=x", "true"], "--report-timeout"),
    (["run", "--stack-depth=0", "true"], "--stack-depth"),
    (["run", "--stack-depth=129", "true"], "--stack-depth"),
    (["run", "--report=pdf", "true"], "--report"),
    (["run", "--enable=maybe", "true"], "--enable"),
    (["run", "--stack-depth"], "--stack-depth"),
    (["run", "--sim=many", "true"], "--sim"),
    (["run", "--sim=0", "true"], "--sim"),
    (["report"], "nothing named"),
    (["report", "a", "b"], "'b'"),
    (["report", "--frobnicate", "a"], "--frobnicate"),
    (["report", "--incident", "1"], "nothing named"),
    (["report", "--incident=0", "a"], "--incident"),
    (["report", "--incident=-1", "a"], "--incident"),
    (["report", "--incident=1x", "a"], "--incident"),
    (["report", "--incident=99999999999", "a"], "--incident"),
    (["report", "--incident=some", "a"], "--incident"),
    (["report", "--now", "--incident=1", "a"], "exclude"),
    (["report", "--json=yes", "a"], "--json"),
    (["doctor", "--frobnicate"], "--frobnicate"),
    (["doctor", "--sim=many", "true"], "--sim"),
    (["hooks", "extra"], "'extra'"),
    (["hooks", "--frobnicate"], "--frobnicate"),
    (["version", "extra"], "'extra'"),
    (["help", "frobnicate"], "frobnicate"),
    (["help", "run", "report"], "'report'"),
]


@pytest.mark.parametrize("arguments,word", BAD, ids=[" ".join(arguments) or "nothing" for arguments, _ in BAD])
def test_bad_argument_is_one_line_and_status_2(arguments, word):
    assert_usage_error(call(*arguments), word)


def test_report_says_why_a_file_cannot_be_read():
    assert_usage_error(call("report", "/proc/self/mem"), "/proc/self/mem: cannot be read: Input/output error")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command):
    by_flag, by_name = call(command, "--help"), call("help", command)
    assert by_flag.returncode == by_name.returncode == 0
    assert by_flag.stderr == by_name.stderr == ""
    assert by_flag.stdout == by_name.stdout
    assert by_flag.stdout.startswith(f"Usage: vramguard {command}")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_version(command):
    assert call(command, "--version").stdout.startswith("vramguard ")


def test_help_lists_every_command():
    listed = call("help")
    assert listed.stdout == call("--help").stdout
    assert listed.returncode == 0
    for command in COMMANDS:
        assert f"\n  {command} " in listed.stdout


def test_run_has_a_flag_for_every_option():
    names = [line.split("(")[1].split(",")[0] for line in (ROOT / "core/options.def").read_text().splitlines()
             if line.startswith("OPTION(")]
    text = call("run", "--help").stdout
    assert len(names) > 10
    for name in names:
        assert f"--{name.replace('_', '-')}=" in text


def test_full_standard_output_is_an_error():
    with open("/dev/full", "w") as full:
        result = subprocess.run([TOOL, "help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1


# --- records that are none ------------------------------------------------------------------------

def test_report_of_a_missing_file(tmp_path):
    assert_usage_error(call("report", tmp_path / "none.vgr"), "none.vgr", "No such file")


def test_report_of_a_directory_without_records(tmp_path):
    assert_usage_error(call("report", tmp_path), "no record")


def test_report_of_no_process():
    child = subprocess.Popen(["true"])
    child.wait()
    assert_usage_error(call("report", child.pid), "no such process")


def test_report_of_a_process_without_a_record():
    assert_usage_error(call("report", os.getpid()), "has no record")


def test_report_of_what_is_no_regular_file(tmp_path):
    os.mkfifo(tmp_path / "fifo.vgr")
    assert_usage_error(call("report", tmp_path / "fifo.vgr"), "not a record")
    assert_usage_error(call("report", "/dev/null"), "not a record")


def test_report_of_an_unreadable_file(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("no right to be refused: root reads everything")
    path = tmp_path / "a.vgr"
    path.write_bytes(b"x")
    path.chmod(0)
    assert_usage_error(call("report", path), "Permission denied")


@pytest.mark.parametrize("content", [b"", b"VRAMGRD", b"VRAMGRD\0" + b"\0" * 100, b"VRAMGRD\0" + b"\xff" * 100000, b"\0" * 100000],
                         ids=["empty", "magic only", "short", "all ones", "all zeros"])
def test_report_of_damaged_files(tmp_path, content):
    path = tmp_path / "damaged.vgr"
    path.write_bytes(content)
    assert_usage_error(call("report", path), "damaged.vgr")
    assert_usage_error(call("report", "--json", path), "damaged.vgr")


def test_report_of_random_files(tmp_path):
    source = random.Random(7)
    path = tmp_path / "random.vgr"
    for size in (1, 4095, 4096, 65536, 200000):
        path.write_bytes(b"VRAMGRD\0\1\0\0\0" + source.randbytes(size))
        assert_usage_error(call("report", path), "random.vgr")


def test_error_of_a_name_with_line_breaks_is_one_line(tmp_path):
    assert_usage_error(call("report", tmp_path / "a\nb\nc"))


# --- run ------------------------------------------------------------------------------------------

needs_library = pytest.mark.skipif(not (BUILD / "libvramguard.so").exists(), reason="the library is not built")


def closing_line(result):
    lines = result.stderr.splitlines()
    assert lines and lines[-1].startswith("VRAMGuard: "), result.stderr
    return lines[-1]


@needs_library
@pytest.mark.parametrize("status", [0, 1, 2, 77, 126, 127, 255])
def test_run_passes_the_exit_status_on(status):
    result = call("run", "sh", "-c", f"exit {status}")
    assert result.returncode == status
    assert "no allocation was seen" in closing_line(result)
    assert len(result.stderr.splitlines()) == 1


@needs_library
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGSEGV", "SIGINT", "SIGABRT"])
def test_run_dies_by_the_signal_of_the_program(name):
    number = getattr(signal, name)
    result = call("run", "--", "sh", "-c", f"kill -{number.value} $$")
    assert result.returncode == -number.value
    closing_line(result)


@needs_library
def test_run_leaves_output_and_input_alone():
    result = call("run", "sh", "-c", "cat; echo error >&2", stdin=None, input="in\n")
    assert result.stdout == "in\n"
    assert result.stderr.splitlines()[0] == "error"
    assert len(result.stderr.splitlines()) == 2


@needs_library
def test_run_gives_the_rest_of_the_line_to_the_program():
    assert call("run", "echo", "--keep=zebra", "--", "-x").stdout == "--keep=zebra -- -x\n"
    assert call("run", "--", "printf", "%s ", "--help", "--keep=zebra").stdout == "--help --keep=zebra "


@needs_library
def test_run_says_when_the_program_is_not_there(tmp_path):
    missing = call("run", tmp_path / "none")
    assert missing.returncode == 127
    assert len(missing.stderr.splitlines()) == 1
    not_executable = tmp_path / "file"
    not_executable.write_text("x")
    refused = call("run", not_executable)
    assert refused.returncode == 126
    assert len(refused.stderr.splitlines()) == 1


@needs_library
def test_run_says_what_was_mistaken_for_a_command(tmp_path):
    missing = call("run", "--", "nosuchcmd")
    assert missing.returncode == 127 and missing.stderr == "vramguard run: nosuchcmd: command not found\n"
    size = call("run", "--sim", "24GiB", "true")
    assert size.returncode == 127 and size.stderr == "vramguard run: 24GiB: command not found; a size is given as --sim=24GiB\n"


@needs_library
def test_run_refuses_what_the_library_could_not_follow(tmp_path):
    assert_usage_error(call("run", "--record-size=1023K", "true"), "--record-size=1023K")
    assert call("run", "--record-size=1M", "true").returncode == 0
    assert_usage_error(call("run", f"--tool={tmp_path}", "true"), "--tool=")
    assert_usage_error(call("run", "--tool=/dev/null", "true"), "--tool=")


@needs_library
def test_run_knows_the_status_where_ended_children_are_ignored():
    def ignore():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    assert call("run", "false", preexec_fn=ignore).returncode == 1
    assert call("run", "sh", "-c", "kill -9 $$", preexec_fn=ignore).returncode == -9
    ignored = call("run", "sed", "-n", "s/^SigIgn:\t//p", "/proc/self/status", preexec_fn=ignore).stdout
    assert int(ignored, 16) >> (signal.SIGCHLD - 1) & 1, "the program inherits what was there"


@needs_library
def test_run_sets_the_environment_of_the_program():
    result = call("run", "--stack-depth=12", "--keep=never", "env", env={**os.environ, "LD_PRELOAD": "", "VRAMGUARD_KEEP": "always"})
    environment = dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)
    assert environment["VRAMGUARD_STACK_DEPTH"] == "12"
    assert environment["VRAMGUARD_KEEP"] == "never"
    assert environment["LD_PRELOAD"].split(":")[0].endswith("/libvramguard.so")
    assert "VRAMGUARD_LOG" not in environment


@needs_library
def test_run_passes_on_a_signal_that_is_sent_to_it():
    process = subprocess.Popen([TOOL, "run", "sh", "-c", "trap 'echo got; exit 7' TERM; echo ready; for i in $(seq 400); do sleep 0.05; done"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=20)
    assert out == "got\n"
    assert process.returncode == 7


@needs_library
def test_run_leaves_no_file_behind(tmp_path):
    result = call("run", "true", cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert result.returncode == 0
    assert list(tmp_path.iterdir()) == []


# --- the summary that guarded processes leave -----------------------------------------------------

def run_with_summary(*lines, options=(), **environment):
    script = "".join(f"echo '{line}' >>$VRAMGUARD_SUMMARY; " for line in lines)
    return closing_line(call("run", *options, "sh", "-c", script + "exit 0", env={**os.environ, **environment}))


@needs_library
def test_closing_line_of_one_process():
    line = run_with_summary("pid=1 peak=0:1073741824,1:0 incidents=2 reports=1 kept=1 record=/tmp/a b kept=0/v.vgr")
    assert line == ("VRAMGuard: peak 1.0 GiB on GPU 0, 0 B on GPU 1; 2 incidents (1 repeat at a site already reported), 1 report; "
                    "record kept: /tmp/a b kept=0/v.vgr")


@needs_library
def test_closing_line_of_a_removed_record():
    line = run_with_summary("pid=1 peak=0:1572864 incidents=0 reports=0 kept=0 record=/tmp/v.vgr")
    assert line == "VRAMGuard: peak 1.5 MiB on GPU 0; no incident; record removed"


@needs_library
def test_closing_line_of_several_processes():
    line = run_with_summary("pid=1 peak=0:1024 incidents=1 reports=1 kept=1 record=/a.vgr",
                            "pid=2 peak=0:2048 incidents=0 reports=0 kept=1 record=/b.vgr")
    assert line == "VRAMGuard: 2 processes, highest peak 2.0 KiB on GPU 0; 1 incident, 1 report; 2 records kept, the last: /b.vgr"


@needs_library
def test_closing_line_says_why_there_are_fewer_reports():
    line = "pid=1 peak=0:1024 incidents=12 reports=2 kept=1 record=/a.vgr"
    assert "; 12 incidents (10 repeats at a site already reported), 2 reports; " in run_with_summary(line)
    assert "; 12 incidents (10 not reported: repeats, or beyond option max_reports), 2 reports; " in run_with_summary(line, options=["--max-reports=2"])
    assert "; 12 incidents, no report (option report=none); " in run_with_summary(line, options=["--report=none"])
    assert "; 12 incidents, no report (option report=none); " in run_with_summary(line, VRAMGUARD_REPORT="none")
    assert ", 2 reports; " in run_with_summary(line, VRAMGUARD_REPORT="none", options=["--report=json"])


@needs_library
def test_closing_line_survives_nonsense():
    assert run_with_summary("", "pid=", "pid=1 peak=x:y", "pid=2 peak=99999999999:1", "hello").startswith("VRAMGuard: ")


# --- doctor and hooks -----------------------------------------------------------------------------

def test_doctor_describes_the_machine():
    result = call("doctor", "--json")
    machine = json.loads(result.stdout)["machine"]
    assert result.returncode == 0
    assert machine["glibc"]
    assert set(machine) >= {"tool_version", "library", "library_loads", "driver", "runtime", "nvml", "unwinder", "simulation"}
    if (BUILD / "libvramguard.so").exists():
        assert machine["library"] == str((BUILD / "libvramguard.so").resolve())
        assert machine["library_loads"] == "yes"


@needs_library
def test_doctor_says_yes_or_no():
    result = call("doctor", "--", "true")
    assert " true\n" not in result.stdout and " false\n" not in result.stdout
    assert re.search(r"(?m)^  driver_loaded +no$", result.stdout)


@needs_library
def test_doctor_finds_nothing_in_a_program_without_cuda():
    result = call("doctor", "--json", "--", "echo", "hello")
    program = json.loads(result.stdout)["program"]
    assert result.returncode == 0
    assert program["finding"] == "no use of CUDA was seen"
    assert program["processes"] == []
    assert result.stderr == "hello\n"


def test_hooks_prints_every_row():
    rows = json.loads(call("hooks", "--json").stdout)
    written = {row.name + "*" * row.family for row in hooks_table.symbols()}
    assert {row["symbol"] for row in rows} == written and len(rows) == len(written) > 200
    assert {"symbol": "cuStreamEndCapture_ptsz", "layer": "driver", "role": "noted", "does": "capture end"} in rows
    assert {"symbol": "cuMemAlloc_v2", "layer": "driver", "role": "counted", "does": "alloc device"} in rows
    assert call("hooks").stdout.count("\n") == len(rows) + 1
