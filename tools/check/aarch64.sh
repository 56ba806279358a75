#!/bin/bash
# aarch64.sh -- cross build with the unit tests under qemu-user.
# SPDX-License-Identifier: Apache-2.0
#
# cmocka for arm64 comes from Debian's package, unpacked into the build directory: apt keeps lists of its own there, so that the machine's
# architectures stay as they are. Without network, and with nothing unpacked before, this ends with an error: the tests could not run.
set -eu
cd "$(dirname "$0")/../.."
build='build-aarch64'
root=$PWD/$build/sysroot
library=$root/usr/lib/aarch64-linux-gnu

fetch() {
    local apt=$PWD/$build/apt
    mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$root"
    local options=(-qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State::Lists="$apt/lists" -o Dir::Cache="$apt"
        -o Dir::State::status=/dev/null -o Debug::NoLocking=1 -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update || echo "aarch64: some package lists could not be read" >&2
    (cd "$apt" && apt-get "${options[@]}" download libcmocka-dev:arm64 libcmocka0:arm64)
    for package in "$apt"/*.deb; do dpkg-deb -x "$package" "$root"; done
    rm -rf "$apt"
}
[ -e "$library/libcmocka.so" ] || fetch

# Left out: the tool's own tests, which would need elfutils for arm64, and those of the simulated GPU, which start programs and ask the kernel for
# things that qemu-user does not do.
tests=$(grep -L '^#include "tools/' tests/unit/test_*.c | grep -v /test_sim_ | sed "s|\(.*\)\.c$|$build/\1|" | tr '\n' ' ')
make --no-print-directory -j2 BUILD="$build" CC="aarch64-linux-gnu-gcc -L$library" UNIT="$tests" \
    RUN="qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=$build/sim:$library" lib unit

if said=$(OBJDUMP=aarch64-linux-gnu-objdump BUILD="$build" bash tools/check/gates/glibc.sh); then
    echo "gate glibc-aarch64: passed: $said"
else
    echo "gate glibc-aarch64: FAILED"
    echo "$said"
    exit 1
fi
