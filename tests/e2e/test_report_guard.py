# test_report_guard.py -- the tool as the library starts it: what it leaves where it is cut off, and where its file's name is taken.
# SPDX-License-Identifier: Apache-2.0
import glob
import json
import os
import subprocess
import time

import pytest

import guarded


@pytest.fixture(scope="module")
def incident(tmp_path_factory):
    directory = tmp_path_factory.mktemp("incident")
    guarded.run([os.path.join(guarded.EXAMPLES, "oom")], directory, memory="4GiB")
    [path] = glob.glob(str(directory / "*.oom-1.vgr"))
    return path


def begin(incident, stem, *options, forms="json"):
    with open(incident, "rb") as file:
        words = [guarded.TOOL, "report", "--from-guard", "--fd=3", "--report=" + forms, f"--stem={stem}", *options]
        return subprocess.Popen(["sh", "-c", 'exec "$@" 3<&0 </dev/null', "sh", *words], stdin=file, stderr=subprocess.PIPE, text=True)


def test_the_file_is_whole_and_nothing_else_is_left(incident, tmp_path):
    tool = begin(incident, tmp_path / "vramguard.h.1-2.oom-1", forms="text,json")
    text = tool.communicate(timeout=30)[1]
    assert tool.returncode == 0 and "oom-1.json" in text
    assert os.listdir(tmp_path) == ["vramguard.h.1-2.oom-1.json"]
    [report] = guarded.written(tmp_path, "oom")
    assert report["kind"] == "oom"


def test_a_tool_that_is_killed_never_leaves_half_a_file(incident, tmp_path):
    """At growing delays, until one had the time that it needs."""
    for n in range(400):
        stem = tmp_path / f"vramguard.h.1-2.oom-{n}"
        tool = begin(incident, stem)
        time.sleep(n * 0.0005)
        tool.kill()
        tool.communicate()
        path = f"{stem}.json"
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                assert json.load(file)["kind"] == "oom"
            if tool.returncode == 0:
                return
    pytest.fail("it never came to an end")


def test_at_its_limit_it_takes_away_what_it_began(incident, tmp_path):
    for ms in range(1, 13):
        tool = begin(incident, tmp_path / f"vramguard.h.1-2.oom-{ms}", f"--limit={ms}")
        tool.communicate(timeout=30)
    for name in os.listdir(tmp_path):
        assert name.endswith(".json"), name
    guarded.written(tmp_path, "oom")


def test_a_name_that_is_taken_is_not_overwritten(incident, tmp_path):
    stem = tmp_path / "vramguard.h.1-2.oom-1"
    (tmp_path / "vramguard.h.1-2.oom-1.json").write_text("theirs")
    tool = begin(incident, stem, forms="text,json")
    text = tool.communicate(timeout=30)[1]
    assert tool.returncode == 0 and "oom-1.json" not in text
    assert [p.read_text() for p in tmp_path.iterdir()] == ["theirs"]


def test_the_tool_ends_by_itself_before_the_keeper_ends_it(tmp_path):
    tool = tmp_path / "tool"
    tool.write_text('#!/bin/sh\nfor word; do case $word in --limit=*) echo "$word" >&2;; esac; done\n')
    tool.chmod(0o755)
    for timeout, limit in (("5s", 4000), ("500ms", 400), ("1s", 800)):
        done = guarded.run([os.path.join(guarded.EXAMPLES, "oom")], tmp_path, memory="4GiB", VRAMGUARD_TOOL=tool,
                           VRAMGUARD_REPORT_TIMEOUT=timeout)
        assert f"--limit={limit}\n" in done.stderr
