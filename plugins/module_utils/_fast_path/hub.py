# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: where the package kernels, and with it the Hugging Face hub, has a say in what a function is bound to."""

from __future__ import annotations

from .packages import version_of

# Folders in the path of a function that the package kernels has loaded.
_PLACES = ("/models--", "/kernels--", "/kernels-community/")

_ON_REQUEST = (
    "The package kernels is installed: a model that is loaded with use_kernels=True takes functions from the hub "
    "instead of those that are proven here."
)


def is_from_hub(file: object) -> bool:
    """Whether a function's file lies in the hub's cache."""
    return any(place in str(file) for place in _PLACES)


def decides() -> bool:
    """Whether transformers asks the hub for kernels instead of importing the local package (5.0 to 5.14)."""
    try:
        from transformers.integrations import hub_kernels

        # Up to 5.5 the switch USE_HUB_KERNELS does not reach the loader: that the package is there decides.
        if hasattr(hub_kernels, "_kernels_available"):
            return bool(hub_kernels._kernels_available)
        return bool(hub_kernels.is_kernels_available() and hub_kernels._kernels_enabled)
    except Exception:
        return version_of("kernels") is not None


def warnings(kernels: str | None, version: str | None, decorated: bool) -> list[str]:
    """A sentence where the installed package kernels is outside of what this transformers takes, or may step in later.

    ``decorated``: functions are chosen by decorators (5.15 on), where a model takes the hub's kernels on request.
    """
    try:
        from transformers.utils import import_utils

        low, high = import_utils.KERNELS_MIN_VERSION, getattr(import_utils, "KERNELS_MAX_VERSION", None)
        if kernels is None:
            return []
        if import_utils.is_kernels_available():
            return [_ON_REQUEST] if decorated else []
    except Exception:
        return []
    window = f"{low} or later" if high is None else f"{low} or later, and before {high}"
    return [f"kernels {kernels} is not what transformers {version} takes ({window}): kernels of the hub are off."]
