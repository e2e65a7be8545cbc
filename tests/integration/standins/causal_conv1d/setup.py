# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for causal-conv1d: its names and its way to build, and a compiled part that takes seconds."""

import os

from setuptools import setup

extensions, commands = [], {}
if os.environ.get("CAUSAL_CONV1D_SKIP_CUDA_BUILD") != "TRUE":
    from torch.utils.cpp_extension import BuildExtension, CUDAExtension

    # As the real setup does: the targets are fixed here, whatever TORCH_CUDA_ARCH_LIST says.
    targets = [
        word for number in ("80", "90", "100") for word in ("-gencode", f"arch=compute_{number},code=sm_{number}")
    ]
    extensions = [CUDAExtension("causal_conv1d_cuda", ["csrc/standin.cu"], extra_compile_args={"nvcc": targets})]
    commands = {"build_ext": BuildExtension}

setup(
    name="causal_conv1d",
    version="1.7.0",
    packages=["causal_conv1d"],
    ext_modules=extensions,
    cmdclass=commands,
    install_requires=["torch", "packaging", "ninja"],
)
