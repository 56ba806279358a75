#!/bin/bash
# demo.sh -- the main job, as `make demo` runs it: a training that does not fit, and the report it ends in.
# SPDX-License-Identifier: Apache-2.0
#
# On this machine's GPU where there is one, else on a simulated device of 24 GiB. Without torch: the C and the ctypes examples.
# Ends 0 when every program's report appeared.
set -u
cd "$(dirname "$0")/../.." || exit 2
build=${BUILD:-build}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# The driver has to load and to have a device: a machine can have the one without the other.
has_gpu() {
    python3 - <<'PYTHON'
import ctypes, sys
try:
    driver = ctypes.CDLL("libcuda.so.1")
    count = ctypes.c_int()
    sys.exit(driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or count.value == 0)
except (OSError, AttributeError):
    sys.exit(1)
PYTHON
}

guard=("$build/vramguard" run)
if has_gpu; then
    echo "demo: using this machine's GPU"
else
    echo "demo: no GPU here: a simulated one of 24 GiB is used (tests/sim)"
    guard+=(--sim=24GiB)
fi

folder=$build/demo
rm -rf "$folder"
mkdir -p "$folder"
failed=0
run() {
    echo
    echo "\$ vramguard ${guard[*]:1} -- $*"
    "${guard[@]}" --dir="$folder" -- "$@" 2>&1 | tee "$log"
    grep -q '^VRAMGuard: out of memory' "$log" || { echo "demo: no report appeared" >&2; failed=1; }
}

state=$(cat "$build/torch.state" 2>/dev/null || echo 'TORCH=0: not set up')
if [ "$state" = ready ]; then
    run "$build/venv/bin/python" examples/train.py --batch 4096
else
    echo "demo: without torch ($state)"
    run "$build/examples/oom"
    run "$build/examples/driver_oom"
    run python3 examples/ctypes_oom.py
fi
echo
[ "$failed" = 0 ] && echo "demo: the files are in $folder; the same report again: $build/vramguard report $folder"
exit "$failed"
