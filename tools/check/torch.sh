#!/bin/bash
# torch.sh -- puts PyTorch's official CUDA wheel into build/venv, once; it needs no GPU.
# SPDX-License-Identifier: Apache-2.0
#
# BUILD names another build directory. The outcome is one line in $BUILD/torch.state, which the tests give as the reason where they skip:
#   ready | TORCH=0: ... | no PyPI: ... | no interpreter: ...
# Only an installation that broke although PyPI was reached ends this script with an error.
set -u
cd "$(dirname "$0")/../.." || exit 2
build=${BUILD:-build}
venv=$build/venv
version=2.11.0
stamp=$venv/.torch-$version-complete
small=(filelock typing-extensions sympy networkx jinja2 fsspec 'setuptools<82' numpy)
parts='cublas,cudart,cufft,cufile,cupti,curand,cusolver,cusparse,nvjitlink,nvrtc,nvtx'
nvidia=(nvidia-cusparselt-cu13==0.8.0 nvidia-nvshmem-cu13==3.4.5 "cuda-toolkit[$parts]==13.0.2")

mkdir -p "$build"
finish() { # state, message
    echo "$1" >"$build/torch.state"
    [ -z "${2:-}" ] || echo "torch: $2"
    exit 0
}
broken() {
    rm -f "$build/torch.state"
    echo "torch: $1 (TORCH=0 goes on without torch)" >&2
    exit 1
}

[ "${TORCH:-1}" != 0 ] || finish 'TORCH=0: torch is switched off'
[ ! -e "$stamp" ] || finish ready
[ "$(uname -m)" = x86_64 ] || finish "no interpreter: no torch wheel is used on $(uname -m)" "not used on $(uname -m)"

if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv" || broken "python3 -m venv $venv failed"
fi
py=$venv/bin/python
"$py" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 14))' ||
    finish "no interpreter: torch $version has no wheel for this Python" "torch $version has no wheel for $("$py" -V); going on without torch"
pip=("$py" -m pip --disable-pip-version-check)

# An import says more than a list of packages, but takes seconds: it is made once, then the stamp answers.
has() { [ -n "$(find "$("$py" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')" -maxdepth 1 -name "$1" -print -quit)" ]; }
imports() { "$py" -c "import torch, numpy; assert torch.__version__.startswith('$version'), torch.__version__" 2>&1; }

if ! has "torch-$version.dist-info" || ! has 'cuda_toolkit-13.0.2.dist-info' || ! has 'nvidia_cusparselt_cu13-*'; then
    echo "torch: downloading PyTorch $version for CUDA 13 into $venv: about 2 GB, 3.4 GB on disk; about a minute on a fast line"
    "${pip[@]}" install --quiet --retries 2 --timeout 20 "${small[@]}" ||
        finish 'no PyPI: pip could not download' 'PyPI cannot be reached; going on without torch (the C and ctypes examples still run)'
    echo "torch: 1 of 3, the small packages: done"
    "${pip[@]}" install "${nvidia[@]}" || broken "pip could not install NVIDIA's libraries"
    echo "torch: 2 of 3, NVIDIA's libraries: done"
    "${pip[@]}" install --no-deps "torch==$version" || broken "pip could not install torch==$version"
    echo "torch: 3 of 3, torch itself: done"
fi

# cuDNN and NCCL are another GB: a toolkit's own are used where there is one, linked to where torch's DT_RPATH looks.
toolkit_library_dir() {
    local nvcc dir
    nvcc=$(command -v nvcc || true)
    for dir in ${CUDA_HOME:+"$CUDA_HOME/lib64"} ${nvcc:+"$(dirname "$(dirname "$nvcc")")/lib64"} /usr/local/cuda/lib64; do
        [ -e "$dir/libcudnn.so.9" ] && [ -e "$dir/libnccl.so.2" ] && { echo "$dir"; return; }
    done
}
link_from() { # dir
    local site file to
    site=$("$py" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
    for file in "$1"/libcudnn*.so.9 "$1"/libnccl.so.2; do
        case $file in *libnccl*) to=$site/nvidia/nccl/lib ;; *) to=$site/nvidia/cudnn/lib ;; esac
        mkdir -p "$to"
        ln -sf "$file" "$to/"
    done
}
if ! why=$(imports); then
    case $why in
    *libcudnn* | *libnccl*)
        dir=$(toolkit_library_dir)
        if [ -n "$dir" ]; then
            echo "torch: cuDNN and NCCL are taken from the toolkit in $dir"
            link_from "$dir"
        else
            echo "torch: no CUDA toolkit with cuDNN and NCCL here: downloading both, about 0.7 GB"
            "${pip[@]}" install nvidia-cudnn-cu13 nvidia-nccl-cu13 || broken "pip could not install cuDNN and NCCL"
        fi
        ;;
    esac
    why=$(imports) || broken "import torch fails: $(echo "$why" | tail -1)"
fi
touch "$stamp"
finish ready "$version is ready in $venv"
