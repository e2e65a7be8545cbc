# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""The extension that link 7 is proven with: what real extensions need, in as few lines and seconds as possible.

One file of device code with a kernel, a launch, torch's stream and error check, and a header of CCCL; one file that
binds it to Python. The division is deliberate: torch's headers through nvcc take 65 s, divided like this 8 s (2
cores).
"""

from __future__ import annotations

SOURCES = {
    "probe_kernel.cu": """\
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cub/version.cuh>

__global__ void add_one(float *values, int count) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < count) values[index] += 1.0f;
}

void launch(float *values, int count) {
  add_one<<<(count + 255) / 256, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(values, count);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}
""",
    "probe_binding.cpp": """\
#include <torch/csrc/utils/pybind.h>

void launch(float *values, int count);

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("add_one", [](at::Tensor x) { launch(x.data_ptr<float>(), static_cast<int>(x.numel())); });
}
""",
}

MATH_HEADERS = "#include <cublas_v2.h>\n#include <cusolverDn.h>\n#include <cusparse.h>\n"
"""Put before the kernel when extensions are wanted that include torch's wrappers of the math libraries."""

PROGRAM = """\
import sys
from torch.utils import cpp_extension

folder, *sources = sys.argv[1:]
module = cpp_extension.load(name="proxmox_gpu_probe", sources=sources, build_directory=folder, verbose=True)
if not callable(module.add_one):
    raise SystemExit("the built module has no function add_one")
print("built", module.__file__)
"""
"""Compiles, links and imports. It needs no GPU: importing loads the CUDA runtime but starts nothing on a device."""


def sources(math_headers: bool) -> dict[str, str]:
    """File name -> text."""
    kernel = (MATH_HEADERS if math_headers else "") + SOURCES["probe_kernel.cu"]
    return {**SOURCES, "probe_kernel.cu": kernel, "probe.py": PROGRAM}
