#!/bin/bash
# device.sh -- the guard on a real GPU with its real driver and runtime, in under five minutes: a table of what was expected and what was seen.
# SPDX-License-Identifier: Apache-2.0
#
#   tests/device.sh            on this machine's GPU; needs nvcc 13.0 and, for its rows of torch, a python with torch 2.11
#   SIM=1 tests/device.sh      the same script on the simulated GPU
#
# It takes memory by plain allocations and gives it back; it changes no setting of the card. Status 0: every row is ok. 1: some are not. 77: no GPU.
set -u
cd "$(dirname "$0")/.." || exit 2
export BUILD=${BUILD:-build} SIM=${SIM:-}
if [ -z "$SIM" ]; then
    command -v nvidia-smi >/dev/null && nvidia-smi -L | grep -q GPU || { echo "no GPU: nvidia-smi knows none here (SIM=1 for the simulation)"; exit 77; }
    nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used --format=csv,noheader
    command -v nvcc >/dev/null || export PATH=$PATH:/usr/local/cuda/bin
    nvcc --version | tail -2 | head -1
fi
# What was built elsewhere and brought along will do where a library that the tool needs is missing.
begin=$SECONDS
if make -s -j4 lib tool ${SIM:+sim} >"${TMPDIR:-/tmp}/device-make.$$" 2>&1; then
    built="built here in $((SECONDS - begin)) s"
elif [ -e "$BUILD/libvramguard.so" ] && [ -x "$BUILD/vramguard" ]; then
    built="not built here, brought along: $(grep -m1 -i error "${TMPDIR:-/tmp}/device-make.$$")"
else
    cat "${TMPDIR:-/tmp}/device-make.$$"
    exit 2
fi
rm -f "${TMPDIR:-/tmp}/device-make.$$"
echo "$built"
exec python3 tests/device_rows.py "$@"
