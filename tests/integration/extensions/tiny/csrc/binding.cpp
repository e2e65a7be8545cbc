// Copyright (c) 2026, the proxmox_gpu.training authors
// SPDX-License-Identifier: GPL-3.0-or-later
#ifdef TINY_FAULT_cxx17
#include <ATen/ATen.h>
#endif
#include <torch/csrc/utils/pybind.h>

void launch(float *values, int count);

#ifdef TINY_FAULT_symbol
namespace c10 { void gone_with_another_torch(); }
#endif

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
#ifdef TINY_FAULT_symbol
  c10::gone_with_another_torch();
#endif
  m.def("add_one", [](at::Tensor x) { launch(x.data_ptr<float>(), static_cast<int>(x.numel())); });
}
