# test_ends.py -- the ways in which a guarded process ends, signals and threads: the record says what lived and the status; nothing hangs.
# SPDX-License-Identifier: Apache-2.0
import os

import pytest

import compiled
import guarded

ENDS = ["exit", "_exit", "_Exit", "quick_exit"]


def run_case(directory, *arguments, **options):
    options.setdefault("VRAMGUARD_KEEP", "always")
    return guarded.run([compiled.build("case_ends"), *arguments], directory, timeout=60, **options)


def the_report(directory):
    [record] = guarded.records(directory)
    return guarded.report_of(record)


def assert_ended(done, directory, code):
    assert done.returncode == code and done.stderr == ""
    report = the_report(directory)
    assert report["devices"][0]["process"]["tracked_bytes"] == int(done.stdout)
    assert report["process"]["exit"] == {"code": code}
    return report


@pytest.mark.parametrize("way", ENDS)
def test_end_is_recorded_with_its_status(way, tmp_path):
    assert_ended(run_case(tmp_path, "end", way), tmp_path, 5)


@pytest.mark.parametrize("way", ENDS)
def test_end_from_a_thread(way, tmp_path):
    assert_ended(run_case(tmp_path, "thread", way), tmp_path, 5)


def test_return_from_main(tmp_path):
    assert_ended(run_case(tmp_path, "return"), tmp_path, 5)


def test_process_that_outlives_its_main_thread(tmp_path):
    assert_ended(run_case(tmp_path, "outlive"), tmp_path, 0)


@pytest.mark.parametrize("way", ENDS)
def test_clean_end_without_a_finding_leaves_nothing(way, tmp_path):
    done = run_case(tmp_path, "end", way, VRAMGUARD_KEEP="auto")
    assert done.returncode == 5 and done.stderr == "" and os.listdir(tmp_path) == []


@pytest.mark.parametrize("way, where", [("exit", "outside"), ("_exit", "outside"), ("quick_exit", "outside"), ("_exit", "inside")])
def test_end_in_a_signal_handler_while_threads_allocate(way, where, tmp_path):
    """Inside: the handler's own thread is in a call too; only an end that asks the driver nothing is safe there, with or without the guard."""
    for round_number in range(10):
        directory = tmp_path / str(round_number)
        directory.mkdir()
        done = run_case(directory, "handler", way, where)
        assert done.returncode == 5 and done.stderr == ""
        report = the_report(directory)
        live = report["devices"][0]["process"]["tracked_bytes"] - int(done.stdout)
        assert live in (0, 1 << 20, 2 << 20, 3 << 20) and report["process"]["exit"] == {"code": 5}


@pytest.fixture(scope="module")
def noop_driver():
    directory = os.path.join(compiled.place(), "noop")
    os.makedirs(directory, exist_ok=True)
    compiled.build("../bench/noop_driver", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libcuda.so.1", libraries=(), name="noop/libcuda.so.1")
    return directory


def test_signal_handler_that_allocates_and_frees_at_any_moment(noop_driver, tmp_path):
    """What the handler does inside the guard is let through and counted as dropped; all else is in the ledger, and the record is sound."""
    done = run_case(tmp_path, "handler-uses", sim=False, LD_LIBRARY_PATH=noop_driver)
    assert done.returncode == 0 and done.stderr == ""
    calls, handled = map(int, done.stdout.split())
    assert calls > 1000 and handled > 1000
    report = the_report(tmp_path)
    sites = [s for s in report["sites"] if s["kind"] == "device" and any(f["function"] == "handler_uses_memory" for f in s["stack"])]
    own = [s for s in sites if not any(f["function"] == "use_on_signal" for f in s["stack"])]
    assert sum(s["live_count"] for s in own) == 32 and sum(s["live_bytes"] for s in own) == 32 * 4096
    assert any("the guard was busy" in note for note in report["hooks"]["notes"]), report["hooks"]


@pytest.mark.parametrize("scenario", ["cancel", "cancel-first"])
def test_cancelled_thread_holds_nobody_up(scenario, tmp_path):
    assert_ended(run_case(tmp_path, scenario), tmp_path, 0)


@pytest.mark.parametrize("begins", ["warm", "all-at-once"])
def test_sixteen_threads_end_with_the_books_equal(begins, tmp_path):
    books = tmp_path / "books"
    report = assert_ended(run_case(tmp_path, "sixteen", begins, VGSIM_ACCOUNT=books), tmp_path, 0)
    [mine] = guarded.account(books)
    # Releases leave the ledger before the call and acquisitions come after it: up to one block of each thread lies between the peaks.
    peak = report["devices"][0]["peak_bytes"]
    assert 0 <= mine["peak_requested_bytes"] - peak <= 16 * 100000
    mine["peak_requested_bytes"] = peak
    guarded.assert_equals_books(report, [mine])


def test_libraries_that_come_and_go_keep_their_names(tmp_path):
    libraries = [compiled.library("case_library", f"libcase{units}.so", f"-DUNITS={units}") for units in (3, 5)]
    report = assert_ended(run_case(tmp_path, "cycles", *libraries), tmp_path, 0)
    by_library = {os.path.basename(x["library"]): x["bytes"] for x in report["devices"][0]["process"]["by_library"]}
    assert by_library == {"libcase3.so": 150 * 4096, "libcase5.so": 250 * 4096}
