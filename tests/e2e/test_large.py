# test_large.py -- reports of records with very many sites.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess

import compiled
import guarded


def test_fifty_thousand_sites_are_written_piece_by_piece(tmp_path):
    program = compiled.build("case_sites", "-fno-crossjumping", "-fno-optimize-sibling-calls")
    guarded.run([program, 50000], tmp_path)
    [record] = guarded.records(tmp_path)
    path = tmp_path / "report.json"
    with open(path, "wb") as out:
        tool = subprocess.Popen([guarded.TOOL, "report", record, "--json"], stdout=out)
        _, status, used = os.wait4(tool.pid, 0)
    sites = frames = 0
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            sites += line.startswith('      "layer": ')
            frames += line.startswith('          "lang": ')
    assert status == 0 and sites == 50000 and frames >= 22 * sites and line == "}\n"
    assert used.ru_maxrss < 300 << 10
    assert used.ru_utime + used.ru_stime < 3
    path.unlink()
