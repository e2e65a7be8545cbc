// Copyright (c) 2026, the proxmox_gpu.training authors
// SPDX-License-Identifier: GPL-3.0-or-later
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#ifdef TINY_FAULT_header
#include <cusparse.h>
#endif

__global__ void add_one_kernel(float *values, int count) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < count) values[index] += 1.0f;
}

void launch(float *values, int count) {
  add_one_kernel<<<(count + 255) / 256, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(values, count);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}
