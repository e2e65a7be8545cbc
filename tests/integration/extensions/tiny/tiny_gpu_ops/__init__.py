# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
from tiny_gpu_ops_cuda import add_one

__all__ = ["add_one"]
