# test_process.py -- what the record says of the process itself, and of options that cannot be followed.
# SPDX-License-Identifier: Apache-2.0
import os

import pytest

import compiled
import guarded

OOM = os.path.join(guarded.EXAMPLES, "oom")


def test_without_proc_the_program_has_the_name_it_was_started_by(tmp_path):
    hides = compiled.library("case_no_proc", "no-proc.so")
    preload = guarded.environment()["LD_PRELOAD"] + ":" + hides
    done = guarded.run([OOM], tmp_path, memory="4GiB", LD_PRELOAD=preload)
    assert done.returncode == 1
    [report] = guarded.written(tmp_path, "oom")
    assert report["process"]["exe"] == OOM
    assert any(f["module"] == OOM and f["function"] == "main" for f in report["failure"]["stack"])


@pytest.mark.parametrize("argument", ["a\x1fb", "\x1f", "plain"])
def test_an_argument_is_one_whatever_bytes_it_has(argument, tmp_path):
    guarded.run([OOM, argument, "last"], tmp_path, memory="4GiB")
    [report] = guarded.written(tmp_path, "oom")
    assert report["process"]["cmdline"] == [OOM, argument.replace("\x1f", "?"), "last"]


def test_a_command_line_that_is_cut_says_so(tmp_path):
    guarded.run([OOM, *["x" * 99] * 1000], tmp_path, memory="4GiB")
    [report] = guarded.written(tmp_path, "oom")
    cmdline = report["process"]["cmdline"]
    assert cmdline[1] == "x" * 99 and cmdline[-1] == "..." and len(cmdline) < 1000


@pytest.mark.parametrize("what", ["missing", "directory", "no-program"])
def test_a_tool_that_cannot_be_started_is_said_once_and_the_default_is_used(what, tmp_path):
    tool = tmp_path / what
    if what == "directory":
        tool.mkdir()
    elif what == "no-program":
        tool.write_text("text")
    done = guarded.run([OOM], tmp_path, memory="4GiB", VRAMGUARD_TOOL=tool)
    lines = [line for line in done.stderr.splitlines() if "VRAMGUARD_TOOL" in line]
    assert len(lines) == 1 and f"'{tool}'" in lines[0] and lines[0] == done.stderr.splitlines()[0]
    assert len(guarded.written(tmp_path, "oom")) == 1


@pytest.mark.parametrize("size, lines", [("64K", 1), ("0", 1), ("1M", 0)])
def test_a_record_too_small_to_list_anything_is_said_once(size, lines, tmp_path):
    done = guarded.run([OOM], tmp_path, memory="4GiB", VRAMGUARD_RECORD_SIZE=size)
    assert done.stderr.count("VRAMGUARD_RECORD_SIZE") == lines
    [report] = guarded.written(tmp_path, "oom")
    assert report["failure"]["site"] is not None
    guarded.assert_adds_up(report)


def test_one_frame_is_that_of_the_caller_not_of_the_runtime(tmp_path):
    guarded.run([OOM], tmp_path, memory="4GiB", VRAMGUARD_STACK_DEPTH=1)
    [report] = guarded.written(tmp_path, "oom")
    stack = report["failure"]["stack"]
    assert stack and {frame["module"] for frame in stack} == {OOM} and report["failure"]["library"] == "oom"
    assert len({frame["offset"] for frame in stack}) == 1  # one address; what was inlined there is a frame each


def test_what_is_not_there_is_looked_for_once(tmp_path):
    """Not at every block: two places ask, and each remembers that there is nothing."""
    program = compiled.build("case_callbacks", "-rdynamic", "-ldl", libraries=(compiled.DRIVER, guarded.LIBRARY))
    done = guarded.run([program], tmp_path, VRAMGUARD_KEEP="always")
    assert done.returncode == 0 and 1 <= int(done.stdout) <= 2
    [record] = guarded.records(tmp_path)
    [blocks] = [s for s in guarded.report_of(record)["sites"] if s["layer"] == "torch"]
    assert blocks["live_count"] == 1000
