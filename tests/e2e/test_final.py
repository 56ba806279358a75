# test_final.py -- which failures are final, and what is said of requests without a size, or of a size that nobody has.
# SPDX-License-Identifier: Apache-2.0
import re
import shutil

import pytest

import compiled
import guarded


def run(tmp_path, *words, memory="4GiB", **options):
    done = guarded.run([compiled.build("case_retry"), *words], tmp_path, memory=memory, **options)
    assert done.returncode == 0, done.stderr
    return done


def script(tmp_path, steps, way="exit"):
    """What came of the attempts, and how many failures were final."""
    summary = tmp_path / "summary"
    summary.touch()
    done = run(tmp_path, "script", steps, way, VRAMGUARD_SUMMARY=summary)
    return done.stdout.strip(), int(re.search(r"incidents=(\d+)", summary.read_text()).group(1))


def test_a_caller_that_retries_at_the_same_place_is_believed(tmp_path):
    assert script(tmp_path, "harahara") == ("0101", 1)


def test_a_success_somewhere_else_is_no_retry(tmp_path):
    assert script(tmp_path, "harbha") == ("010", 2)


def test_the_second_failure_in_a_row_is_final_whatever_is_done_between(tmp_path):
    assert script(tmp_path, "harahaa") == ("0100", 2)


@pytest.mark.parametrize("way", ["exit", "_exit"])
def test_what_nobody_retried_when_the_process_ends_was_final(way, tmp_path):
    assert script(tmp_path, "haraha", way) == ("010", 2)


@pytest.mark.parametrize("way", ["exit", "_exit"])
def test_what_was_made_good_in_the_end_was_not(way, tmp_path):
    assert script(tmp_path, "harahara", way) == ("0101", 1)


def test_requests_that_overflow_are_absurd(tmp_path):
    run(tmp_path, "absurd")
    reports = guarded.written(tmp_path, "oom")
    assert [r["verdict"]["class"] for r in reports] == ["absurd-request"] * 2
    assert [r["failure"]["bytes"] for r in reports] == [2**64 - 2] * 2


def test_a_context_that_could_not_be_made_names_no_size(tmp_path):
    done = run(tmp_path, "second-context")
    [report] = guarded.written(tmp_path, "oom")
    assert report["failure"]["api"].startswith("cuCtxCreate") and report["failure"]["bytes"] is None
    assert report["verdict"]["class"] == "unknown"
    summary = report["verdict"]["summary"]
    assert summary.startswith("a context could not be made") and "although" not in summary
    assert "a context could not be made" in done.stderr


@pytest.mark.parametrize("code, incidents", [(709, 0), (2, 1)])
def test_a_destroyed_context_is_a_wrong_call(code, incidents, tmp_path):
    done = run(tmp_path, "status", "-", VGSIM_FAIL=f"cuMemAlloc_v2:1:{code}", VRAMGUARD_KEEP="always")
    assert done.stdout == f"{code}\n"
    assert len(guarded.written(tmp_path, "oom")) == incidents


@pytest.mark.parametrize("depth", [1, 64])
@pytest.mark.parametrize("name, incidents", [("cupy/cuda/memory.so", 0), ("other/memory.so", 1)])
def test_who_retries_is_known_however_few_frames_are_kept(name, incidents, depth, tmp_path):
    library = tmp_path / name
    library.parent.mkdir(parents=True)
    shutil.copy(compiled.library("case_through", "through.so"), library)
    run(tmp_path, "family", library, VRAMGUARD_STACK_DEPTH=depth)
    assert len(guarded.written(tmp_path, "oom")) == incidents
