#!/bin/sh
# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Build causal-conv1d for one GPU target on a GPU machine without network:
#   build_wheel.sh SDIST OUTPUT_FOLDER [compute capability, 90]
# A wrapper drops the -gencode pairs that are not wanted (the setup script names nine and ignores
# TORCH_CUDA_ARCH_LIST), -lineinfo and -ptxas-options=-v: a wheel of 12 MB instead of 26.
set -eu
sdist=$1 out=$2 target=${3:-90}
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
CUDA_HOME=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xzf "$sdist" -C "$work" --strip-components=1
cat > "$work/nvcc" <<WRAPPER
#!/usr/bin/env python3
import os, sys
kept, words = [], iter(sys.argv[1:])
for word in words:
    if word == "-gencode":
        pair = next(words)
        if pair.endswith("sm_$target"):
            kept += [word, pair]
    elif word != "-lineinfo" and "ptxas-options" not in word:
        kept.append(word)
# The full path as argv[0]: nvcc finds its profile, and with it cub and thrust, next to itself.
real = "$CUDA_HOME/bin/nvcc"
os.execv(real, [real, *kept])
WRAPPER
chmod +x "$work/nvcc"
export CUDA_HOME PYTORCH_NVCC="$work/nvcc" CAUSAL_CONV1D_FORCE_BUILD=TRUE MAX_JOBS="${MAX_JOBS:-$(nproc)}"
mkdir -p "$out"
start=$(date +%s)
cd "$work"
python3 -m pip wheel -q --no-build-isolation --no-deps --no-cache-dir -w "$out" . || exit 1
echo "built in $(($(date +%s) - start)) s: $(ls -l "$out"/causal_conv1d-*.whl)"
