#!/bin/bash
# gates.sh -- runs every gate of tools/check/gates/: one line each, `gate NAME: passed|FAILED|skipped`.
# SPDX-License-Identifier: Apache-2.0
#
# A gate is an executable script in that folder. It ends with 0 (its last line says what it looked at), 77 (its last line says why it cannot run
# here) or anything else (all it said is shown). How to add one: put the file there.
set -u
cd "$(dirname "$0")/../.." || exit 2
export BUILD=${BUILD:-build}
failed=0
for gate in tools/check/gates/*.sh tools/check/gates/*.py; do
    name=$(basename "${gate%.*}")
    case $gate in *.py) said=$(python3 "$gate" 2>&1) ;; *) said=$(bash "$gate" 2>&1) ;; esac
    case $? in
    0) echo "gate $name: passed: $(tail -1 <<<"$said")" ;;
    77) echo "gate $name: skipped: $(tail -1 <<<"$said")" ;;
    *)
        echo "gate $name: FAILED"
        sed 's/^/    /' <<<"$said"
        failed=1
        ;;
    esac
done
exit "$failed"
