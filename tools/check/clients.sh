#!/bin/bash
# clients.sh -- puts cuda-bindings and numba-cuda from PyPI into build/venv-clients, once; they need no GPU.
# SPDX-License-Identifier: Apache-2.0
#
# Not into build/venv: numba-cuda hooks into the start of every Python there. BUILD names another build directory. The outcome is one line in
# $BUILD/clients.state, which the tests give as the reason where they skip:
#   ready | TORCH=0: ... | no PyPI: ... | no interpreter: ...
set -u
cd "$(dirname "$0")/../.." || exit 2
build=${BUILD:-build}
venv=$build/venv-clients
packages=(cuda-bindings==13.0.3 numba-cuda==0.30.4 numba==0.68.1 numpy==2.4.6)
stamp=$venv/.complete

mkdir -p "$build"
finish() { # state, message
    echo "$1" >"$build/clients.state"
    [ -z "${2:-}" ] || echo "clients: $2"
    exit 0
}

[ "${TORCH:-1}" != 0 ] || finish 'TORCH=0: packages of PyPI are switched off'
[ "$(cat "$stamp" 2>/dev/null)" != "${packages[*]}" ] || finish ready
[ "$(uname -m)" = x86_64 ] || finish "no interpreter: no wheel is used on $(uname -m)"
[ -x "$venv/bin/python" ] || python3 -m venv "$venv" || { echo "clients: python3 -m venv $venv failed" >&2; exit 1; }
py=$venv/bin/python
"$py" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' ||
    finish 'no interpreter: the wheels want Python 3.11 to 3.14' "no wheels for $("$py" -V); going on without cuda-bindings and numba-cuda"
"$py" -m pip --disable-pip-version-check install --quiet --retries 2 --timeout 20 "${packages[@]}" ||
    finish 'no PyPI: pip could not download' 'PyPI cannot be reached; going on without cuda-bindings and numba-cuda'
"$py" -c 'import cuda.bindings.driver, numba.cuda' || { echo "clients: the packages cannot be imported" >&2; exit 1; }
echo "${packages[*]}" >"$stamp"
finish ready "cuda-bindings and numba-cuda are ready in $venv"
