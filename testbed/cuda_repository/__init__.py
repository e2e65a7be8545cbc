# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for NVIDIA's CUDA repository host, carrying NVIDIA's real compiler and headers (see README.md here)."""

from __future__ import annotations

from .builder import build
from .errors import BuildError

__all__ = ["BuildError", "build"]
