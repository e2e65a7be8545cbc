# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for causal-conv1d: importable like the real package, and of no use to a model."""

import causal_conv1d_cuda  # noqa: F401


def causal_conv1d_fn(
    x, weight, bias=None, seq_idx=None, initial_states=None, return_final_states=False, activation=None
):
    raise NotImplementedError("this is a stand-in for causal-conv1d")


def causal_conv1d_update(
    x, conv_state, weight, bias=None, activation=None, cache_seqlens=None, conv_state_indices=None
):
    raise NotImplementedError("this is a stand-in for causal-conv1d")
