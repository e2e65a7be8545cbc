# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real CUDA extension that compiles in seconds, with the habits of big ones: hard-coded targets, line information.

TINY_FAULT makes its build fail in the ways that builds fail.
"""

import os
import urllib.request
from pathlib import Path

import torch
from setuptools import setup
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CUDAExtension

fault = os.environ.get("TINY_FAULT", "")
if os.environ.get("TINY_FORCE_BUILD") != "TRUE":
    urllib.request.urlopen("http://127.0.0.1:9/a-prebuilt-wheel")
if torch.version.cuda and CUDA_HOME:
    bare_metal_version = torch.version.cuda
if os.environ.get("TINY_SKIP_CUDA_BUILD") != "TRUE":
    print("building with CUDA", bare_metal_version)

here = Path(__file__).resolve().parent
targets = [("-gencode", f"arch=compute_{number},code=sm_{number}") for number in ("80", "90")]
extension = CUDAExtension(
    "tiny_gpu_ops_cuda",
    ["csrc/binding.cpp", "csrc/kernel.cu"] + (["csrc/absent.cu"] if fault == "absent" else []),
    extra_compile_args={
        "cxx": [*(["-std=c++17"] if fault == "cxx17" else []), *([f"-DTINY_FAULT_{fault}"] if fault else [])],
        "nvcc": [
            "-lineinfo",
            "--ptxas-options=-v",
            "--threads",
            "4",
            *(word for pair in targets for word in pair),
            *([f"-DTINY_FAULT_{fault}"] if fault else []),
        ],
    },
)
setup(
    name="tiny_gpu_ops",
    version="1.0",
    packages=["tiny_gpu_ops"],
    ext_modules=[] if os.environ.get("TINY_SKIP_CUDA_BUILD") == "TRUE" else [extension],
    cmdclass={"build_ext": BuildExtension},
)
