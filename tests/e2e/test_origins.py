# test_origins.py -- the thread, the stream and "during a capture" of what lives.
# SPDX-License-Identifier: Apache-2.0
import compiled
import guarded
from guarded import MIB


def test_sites_say_thread_stream_and_capture(tmp_path):
    program = guarded.start([compiled.build("case_origins")], tmp_path)
    thread, stream = (int(program.stdout.readline().split()[1]) for _ in range(2))
    report = guarded.report_of(program.pid)
    program.communicate("\n")
    site = {s["live_bytes"]: s for s in report["sites"]}
    assert (site[2 * MIB]["thread"], site[2 * MIB]["stream"], site[2 * MIB]["captured_bytes"]) == (thread, None, 0)
    assert (site[4 * MIB]["kind"], site[4 * MIB]["stream"], site[4 * MIB]["thread"]) == ("pool", stream, program.pid)
    assert (site[6 * MIB]["captured_bytes"], site[6 * MIB]["thread"]) == (6 * MIB, program.pid)
