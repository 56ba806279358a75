# test_mixed.py -- every term of the balance equals the simulation's books at each moment of a program that uses pools, graphs, virtual memory, arrays.
# SPDX-License-Identifier: Apache-2.0
import compiled
import guarded
import steps
from guarded import MIB

MOMENTS = ["begin", "pools", "free-pending", "synchronized", "kept-by-threshold", "trimmed", "own-pool-is-the-device's", "pool-destroyed",
           "graph-instantiated", "graph-uploaded", "graph-launched", "graph-launched-again", "graph-freed", "graph-destroyed", "graph-trimmed",
           "mapped", "released-but-mapped", "unmapped-but-retained", "unmapped-together", "arrays", "end"]


def test_the_balance_equals_the_books_at_every_moment(tmp_path):
    walked = steps.walk([compiled.build("case_mixed")], tmp_path, memory="4GiB", VGSIM_OTHER="991:Xorg:512MiB", VGSIM_HIDDEN="77MiB")
    assert list(walked.report) == MOMENTS
    for moment in MOMENTS:
        try:
            guarded.assert_equals_books(walked.report[moment], walked.books[moment])
        except AssertionError as error:
            raise AssertionError(f"at {moment}: {error}") from error
    kinds = {moment: guarded.live_kinds(walked.books[moment][0]) for moment in MOMENTS}
    idle = {moment: guarded.pool_idle(walked.books[moment][0]) for moment in MOMENTS}
    # The moments are what they are called.
    assert kinds["free-pending"]["pool"] == 4 * MIB + 512 * 9 and idle["free-pending"] > idle["synchronized"]
    assert idle["kept-by-threshold"] > idle["trimmed"] > idle["pool-destroyed"] == 0
    assert "graph" not in kinds["graph-uploaded"] and kinds["graph-launched"]["graph"] == kinds["graph-launched-again"]["graph"] == 5 * MIB
    assert idle["graph-destroyed"] > idle["graph-trimmed"] == 0
    assert [kinds[m]["vmm"] // MIB for m in ("mapped", "released-but-mapped", "unmapped-but-retained", "unmapped-together")] == [12, 8, 8, 4]
    assert kinds["end"] == {} and walked.report["end"]["hooks"]["unknown_free_count"] == 0
