# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""FAKES for the tests of the fast path: packages of the same names as the real ones, laid into a folder.

``causal_conv1d`` and ``fla`` below compute the right thing with PyTorch, slowly, so that a proof can run on a CPU;
``torch`` and ``transformers`` compute nothing, and exist so that a test without them can play each design in a moment.
None of them is ever installed anywhere but in a test's own folder.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

CONV = '''
"""A FAKE of causal-conv1d: right and slow."""
import torch
from torch.nn import functional

__version__ = "1.7.0"


def _conv(x, weight, bias):
    padded = functional.pad(x, (weight.shape[-1] - 1, 0))
    return functional.conv1d(padded, weight.unsqueeze(1), bias, groups=x.shape[1])


def causal_conv1d_fn(x, weight, bias=None, seq_idx=None, initial_states=None, return_final_states=False,
                     final_states_out=None, activation=None):
    if seq_idx is None:
        out = _conv(x, weight, bias)
    else:
        index = seq_idx[0]
        out = torch.cat([_conv(x[..., index == i], weight, bias) for i in index.unique().tolist()], -1)
    return functional.silu(out) if activation else out


def causal_conv1d_update(x, conv_state, weight, bias=None, activation=None, cache_seqlens=None):
    flat = x.dim() == 2
    x = x.unsqueeze(-1) if flat else x
    joined = torch.cat([conv_state, x], -1).to(weight.dtype)
    conv_state.copy_(joined[..., -conv_state.shape[-1]:])
    out = functional.conv1d(joined, weight.unsqueeze(1), bias, groups=x.shape[1])[..., -x.shape[-1]:]
    out = functional.silu(out) if activation else out
    return out.squeeze(-1) if flat else out
'''

DELTA = '''
"""A FAKE of fla.ops.gated_delta_rule: right and slow."""
import torch


def _rule(q, k, v, g, beta, state):
    q, k, v, g, beta = [t.float() for t in (q, k, v, g, beta)]
    repeat = v.shape[2] // q.shape[2]
    q, k = q.repeat_interleave(repeat, 2), k.repeat_interleave(repeat, 2)
    q = q / torch.sqrt((q * q).sum(-1, keepdim=True) + 1e-6) * q.shape[-1] ** -0.5
    k = k / torch.sqrt((k * k).sum(-1, keepdim=True) + 1e-6)
    s = torch.zeros(k.shape[0], k.shape[2], k.shape[3], v.shape[3]) if state is None else state
    out = []
    for t in range(q.shape[1]):
        s = s * g[:, t].exp()[..., None, None]
        u = (v[:, t] - torch.einsum("bhk,bhkv->bhv", k[:, t], s)) * beta[:, t][..., None]
        s = s + k[:, t][..., None] * u[:, :, None]
        out.append(torch.einsum("bhk,bhkv->bhv", q[:, t], s))
    return torch.stack(out, 1), s


def chunk_gated_delta_rule(q, k, v, g, beta, initial_state=None, output_final_state=False,
                           use_qk_l2norm_in_kernel=False, cu_seqlens=None):
    if cu_seqlens is None:
        out, state = _rule(q, k, v, g, beta, initial_state)
    else:
        cu = cu_seqlens.tolist()
        parts = [_rule(q[:, a:b], k[:, a:b], v[:, a:b], g[:, a:b], beta[:, a:b], None) for a, b in zip(cu, cu[1:])]
        out, state = torch.cat([o for o, _ in parts], 1), None
    return out.to(q.dtype), state


fused_recurrent_gated_delta_rule = chunk_gated_delta_rule
'''

KDA = """
def chunk_kda(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False, cu_seqlens=None, **more): ...
def fused_recurrent_kda(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False,
                        cu_seqlens=None, **more): ...
"""
MODULES = """
try:
    from torch.nn import Module
except ImportError:
    Module = object


class FusedRMSNormGated(Module):
    def __init__(self, *arguments, **named):
        super().__init__()


class ShortConvolution(FusedRMSNormGated): ...
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def metadata(name: str, version: str) -> dict[str, str]:
    """The metadata folder that importlib.metadata reads a version from."""
    folder = f"{name.replace('-', '_')}-{version}.dist-info"
    return {f"{folder}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"}


def conv(folder: Path, text: str = CONV, version: str | None = "1.7.0") -> Path:
    """causal_conv1d; without metadata when ``version`` is None."""
    write(folder, {"causal_conv1d/__init__.py": text})
    return write(folder, metadata("causal-conv1d", version) if version else {})


def fla(folder: Path, text: str = DELTA, version: str = "0.5.2", whole: bool = True) -> Path:
    """fla. transformers up to 5.16 finds ``fla.ops`` only where the whole flash-linear-attention is installed.

    The real flash-linear-attention makes ``fla.ops`` an attribute of ``fla``, fla-core alone does not; so here.
    """
    files = {
        "fla/__init__.py": "from . import modules, ops\n" * whole + f"__version__ = {version!r}\n",
        "fla/ops/__init__.py": "from . import gated_delta_rule, kda\n" * whole,
        "fla/ops/gated_delta_rule/__init__.py": text,
        "fla/ops/kda/__init__.py": KDA,
        "fla/modules/__init__.py": MODULES,
        **metadata("fla-core", version),
        **(metadata("flash-linear-attention", version) if whole else {}),
    }
    return write(folder, files)


SCAN = """
def selective_scan_fn(u, delta, A, B, C, D=None, z=None, delta_bias=None, delta_softplus=False,
                      return_last_state=False): ...
def mamba_inner_fn(xz, conv1d_weight, conv1d_bias, x_proj_weight, delta_proj_weight, out_proj_weight, out_proj_bias, A,
                   B=None, C=None, D=None, delta_bias=None, delta_softplus=True): ...
"""
STATE_UPDATE = """
def selective_state_update(state, x, dt, A, B, C, D=None, z=None, dt_bias=None, dt_softplus=False): ...
"""
SSD = """
def mamba_chunk_scan_combined(x, dt, A, B, C, chunk_size, D=None, z=None, dt_bias=None, seq_idx=None): ...
def mamba_split_conv1d_scan_combined(zxbcdt, conv1d_weight, conv1d_bias, dt_bias, A, D, chunk_size, seq_idx=None): ...
"""
# As in the real one, the root exports two functions and, through its own layers, has every module below ops loaded.
ROOT = """
from mamba_ssm.ops.selective_scan_interface import mamba_inner_fn, selective_scan_fn
import mamba_ssm.ops.triton.selective_state_update
import mamba_ssm.ops.triton.ssd_combined
"""


def mamba_ssm(folder: Path, version: str = "2.2.4") -> Path:
    """mamba_ssm that can be imported and computes nothing."""
    files = {
        "mamba_ssm/__init__.py": f"__version__ = {version!r}\n{ROOT}",
        "selective_scan_cuda.py": "",
        "mamba_ssm/ops/__init__.py": "",
        "mamba_ssm/ops/selective_scan_interface.py": SCAN,
        "mamba_ssm/ops/triton/__init__.py": "",
        "mamba_ssm/ops/triton/layer_norm.py": "def _layer_norm_fwd(*arguments, **named): ...\n",
        "mamba_ssm/ops/triton/selective_state_update.py": STATE_UPDATE,
        "mamba_ssm/ops/triton/ssd_combined.py": SSD,
    }
    return write(folder, {**files, **metadata("mamba-ssm", version)})


def broken_library(folder: Path, symbol: str = "_ZN3c104cuda29c10_cuda_of_another_torchEv") -> Path:
    """causal_conv1d with a compiled part that needs a symbol which no torch has: compiled by the real gcc."""
    source = folder / "broken.c"
    write(
        folder,
        {"broken.c": f"extern int {symbol}(void);\nint PyInit_causal_conv1d_cuda(void) {{ return {symbol}(); }}\n"},
    )
    library = folder / "causal_conv1d_cuda.abi3.so"
    command = ["gcc", "-shared", "-fPIC", "-Wl,-z,now", "-o", str(library), str(source)]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    source.unlink()
    return conv(folder, "import causal_conv1d_cuda\n" + CONV)


def torch(folder: Path, gpus: Iterable[tuple[str, int, int]] = (), cuda: str | None = "13.0") -> Path:
    """A FAKE torch that sees these GPUs, (name, major, minor) each, and computes nothing."""
    text = f"""
import types
__version__ = "2.14.1+cu130"
version = types.SimpleNamespace(cuda={cuda!r})
_GPUS = {list(gpus)!r}


class cuda:
    is_available = staticmethod(lambda: bool(_GPUS))
    device_count = staticmethod(lambda: len(_GPUS))

    @staticmethod
    def get_device_properties(index):
        name, major, minor = _GPUS[index]
        return types.SimpleNamespace(name=name, major=major, minor=minor, total_memory=1 << 37)


class device:
    def __init__(self, name):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return False
"""
    return write(folder, {"torch/__init__.py": text, **metadata("torch", "2.14.1+cu130")})


def transformers(folder: Path, modeling: str, version: str = "5.17.0", family: str = "qwen3_5") -> Path:
    """A FAKE transformers with one modeling file, whose text is given, and a config that takes anything."""
    automatic = f"""
class Config:
    def __init__(self, **values):
        self.__dict__.update(values)


CONFIG_MAPPING = {{{family!r}: Config, {family + "_text"!r}: Config}}
"""
    files = {
        "transformers/__init__.py": f"__version__ = {version!r}\n",
        "transformers/models/__init__.py": "",
        "transformers/models/auto/__init__.py": "",
        "transformers/models/auto/configuration_auto.py": automatic,
        f"transformers/models/{family}/__init__.py": "",
        f"transformers/models/{family}/modeling_{family}.py": modeling,
        **metadata("transformers", version),
    }
    return write(folder, files)


def remove(folder: Path, *names: str) -> Path:
    """Take packages out of a folder again, their metadata with them."""
    for name in names:
        for path in [folder / name, *folder.glob(f"{name}-*.dist-info")]:
            shutil.rmtree(path, ignore_errors=True)
    return folder
