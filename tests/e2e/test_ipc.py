# test_ipc.py -- memory that two processes share: its bytes are the exporter's, and an alias where it is opened.
# SPDX-License-Identifier: Apache-2.0
import compiled
import guarded
import steps
from guarded import MIB

FIRST, SECOND, OWN = 6 * MIB + 512, 10 * MIB, 2 * MIB


def start(role, directory, shared, *arguments):
    place = directory / role
    place.mkdir()
    return steps.Walker([compiled.build("case_ipc"), role, *arguments], place, memory="1GiB", VGSIM_SHARED=shared)


def by_kind(walker, step):
    return {kind: size for kind, size in walker.walked.report[step]["devices"][0]["process"]["by_kind"].items() if size}


def test_two_processes(tmp_path):
    exporter = start("export", tmp_path, tmp_path / "shared")
    assert exporter.to_step() == "exported"
    handles = [line.split()[1] for line in exporter.walked.lines if line.startswith("handle ")]
    importer = start("open", tmp_path, tmp_path / "shared", *handles)
    assert [importer.to_step() for _ in range(3)] == ["opened", "opened-again", "closed-once"]
    assert "same 1" in importer.walked.lines
    assert exporter.to_step() == "freed-one"
    importer.look("closed-once, one freed")
    assert importer.to_step() == "closed"
    importer.end()
    exporter.end()

    assert by_kind(exporter, "exported") == {"device": FIRST + SECOND}
    assert by_kind(exporter, "freed-one") == {"device": FIRST} and by_kind(exporter, "freed-both") == {}
    assert by_kind(importer, "opened") == by_kind(importer, "opened-again") == {"device": OWN, "ipc": FIRST + SECOND}
    assert by_kind(importer, "closed-once") == by_kind(importer, "closed-once, one freed") == {"device": OWN, "ipc": FIRST + SECOND}
    assert by_kind(importer, "closed") == {"device": OWN}
    for walker in (exporter, importer):
        for step, report in walker.walked.report.items():
            books = walker.walked.books[step][0]
            assert by_kind(walker, step) == guarded.live_kinds(books), step
            device = report["devices"][0]
            assert device["process"]["tracked_bytes"] == by_kind(walker, step).get("device", 0)  # aliases are in no sum
            assert device["peak_bytes"] == books["peak_requested_bytes"]
            seen = {key: report["objects"]["ipc_open"][key] for key in ("live", "created", "destroyed")}
            assert seen == books["objects"]["ipc_open"], step
            assert report["hooks"]["unknown_free_count"] == 0
            guarded.assert_adds_up(report)
