#!/bin/bash
# deps.sh -- installs what a machine lacks: deps.sh demo|check|ci [--torch].
# SPDX-License-Identifier: Apache-2.0
#
# Each row names a probe and the package that satisfies it: a machine that has the thing from elsewhere is left alone. With root or a sudo that
# asks nothing, apt installs what is missing; else the one line to type is printed and nothing is changed.
set -u
cd "$(dirname "$0")/../.." || exit 2
level=${1:-check}
missing=()

command_or() { command -v "$1" >/dev/null 2>&1 || missing+=("$2"); }
header_or() { [ -e "/usr/include/$1" ] || [ -e "/usr/local/include/$1" ] || missing+=("$2"); }
library_or() { compgen -G "/usr/lib/*/$1" >/dev/null || compgen -G "/usr/lib*/$1" >/dev/null || compgen -G "/usr/local/lib*/$1" >/dev/null || missing+=("$2"); }
is_in() { case " $2 " in *" $1 "*) return 0 ;; esac; return 1; }

# python3 -m venv needs the package python3-venv for Debian's own python3 only.
venv_or() { python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=("$1"); }
pytest_or() { python3 -c 'import pytest' 2>/dev/null || /usr/bin/python3 -c 'import pytest' 2>/dev/null || missing+=("$1"); }

# The sanitizers' package is named after clang's version: libclang-rt-14-dev; before clang 14 they are in libclang-common-N-dev.
clang_runtime_or_nothing() {
    local version
    if command -v clang >/dev/null 2>&1; then
        compgen -G "$(clang -print-resource-dir)/lib/*/libclang_rt.tsan*.a" >/dev/null && return
        version=$(clang -dumpversion | cut -d. -f1)
    else
        version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p' | head -1)
    fi
    [ -n "$version" ] || { missing+=(libclang-rt-dev); return; }
    if [ "$version" -ge 14 ]; then missing+=("libclang-rt-$version-dev"); else missing+=("libclang-common-$version-dev"); fi
}

probe_demo() {
    command_or gcc gcc
    command_or make make
    header_or stdio.h libc6-dev
    header_or uthash.h uthash-dev
    header_or libelf.h libelf-dev
    header_or elfutils/libdw.h libdw-dev
    header_or json-c/json.h libjson-c-dev
    library_or 'libunwind.so.8' libunwind8
    command_or python3 python3
    venv_or python3-venv
}
probe_check() {
    header_or cmocka.h libcmocka-dev
    pytest_or python3-pytest
    command_or objdump binutils
    command_or git git
    command_or unshare util-linux
    command_or clang clang
    clang_runtime_or_nothing
}
probe_ci() {
    command_or clang-format clang-format
    command_or heaptrack heaptrack
    command_or aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
    [ -e /usr/aarch64-linux-gnu/include/stdio.h ] || missing+=(libc6-dev-arm64-cross)
    command_or qemu-aarch64 qemu-user
}
probe() {
    missing=()
    probe_demo
    is_in "$level" "check ci bench" && probe_check
    is_in "$level" "ci bench" && probe_ci
    return 0
}

install_missing() {
    local as=()
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "deps: this is no Debian or Ubuntu; please install by your own means: ${missing[*]}" >&2
        exit 1
    fi
    if [ "$(id -u)" != 0 ]; then
        if sudo -n true 2>/dev/null; then
            as=(sudo -n)
        else
            echo "deps: please type:  sudo apt-get install -y ${missing[*]}" >&2
            exit 1
        fi
    fi
    echo "deps: installing ${missing[*]}"
    "${as[@]}" apt-get -qq update || echo "deps: apt-get update failed, going on with the lists that are here" >&2
    probe # the clang runtime's name may only now be known
    "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
        { echo "deps: apt-get could not install: ${missing[*]}" >&2; exit 1; }
    probe
    [ "${#missing[@]}" = 0 ] || { echo "deps: still missing after the installation: ${missing[*]}" >&2; exit 1; }
}

probe
[ "${#missing[@]}" = 0 ] || install_missing
[ "${2:-}" = --torch ] || exit 0
bash tools/check/torch.sh || exit
[ "$level" = demo ] || bash tools/check/clients.sh
