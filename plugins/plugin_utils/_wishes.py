# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection.

"""The wishes for a host: every public role variable, from wherever Ansible knows it, else from the role's own defaults.

Defaults are read as data from the roles' folders, so provision, diagnose and verify see one and the same value, and no
default is written down twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible.parsing.dataloader import DataLoader

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _extension_catalogue, _toolkit_plan
from ansible_collections.proxmox_gpu.training.plugins.plugin_utils import _bootstrap_files

#: Roles whose variables are wishes. One that this release does not have yet is skipped.
ROLES = (
    "bootstrap",
    "gpu_passthrough",
    "torch_environment",
    "cuda_repository",
    "cuda_toolkit",
    "cuda_extensions",
    "fast_path",
)
COLLECTION = Path(__file__).resolve().parents[2]

_LOGIN = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_SECRET = re.compile(r"token(?!iz)|secret|password|passwd|credential|api_?key", re.IGNORECASE)


def role_defaults(loader: DataLoader, role: str) -> dict[str, Any]:
    """A role's defaults, their templates still templates; {} for a role that is not there."""
    path = COLLECTION / "roles" / role / "defaults" / "main.yml"
    if not path.is_file():
        return {}
    return dict(loader.load_from_file(str(path), trusted_as_template=True) or {})


def wishes(
    loader: DataLoader, variables: Mapping[str, Any], template: Callable[[Any, Mapping[str, Any]], Any]
) -> dict[str, Any]:
    """{role: {variable without the role's prefix: value}, "explicit": [names that were set]}.

    The bootstrap role's also have "files", what it puts into the container by these variables, and those of
    cuda_toolkit "beside_compiler", the packages that they ask for beside the compiler.

    variables: all that Ansible knows for the host.  template: renders a value with the variables it is given; what it
    raises goes through, because a variable that cannot be rendered is the person's mistake.
    """
    defaults = {role: role_defaults(loader, role) for role in ROLES}
    known = {name: value for role in ROLES for name, value in defaults[role].items()} | dict(variables)
    desired: dict[str, Any] = {}
    for role in ROLES:
        prefix = f"{role}_"
        desired[role] = {
            name.removeprefix(prefix): template(known[name], known)
            for name in defaults[role]
            if name.startswith(prefix)
        }
    desired["bootstrap"]["files"] = bootstrap_files(desired["bootstrap"])
    desired["cuda_toolkit"]["beside_compiler"] = beside_compiler(desired["cuda_toolkit"], desired["cuda_extensions"])
    names = {name for role in ROLES for name in defaults[role]}
    return {**desired, "explicit": sorted(names & set(variables))}


def bootstrap_files(bootstrap: Mapping[str, Any]) -> dict[str, Any]:
    """{certificates: [file names], proxy: text} that role bootstrap puts into the container.

    certificates is None when a file on the control node cannot be read: the role says that, with its name.
    """
    proxies = [bootstrap.get(name) or None for name in ("http_proxy", "https_proxy", "no_proxy")]
    try:
        certificates = sorted(_bootstrap_files.certificates(bootstrap.get("ca_certificates") or []))
    except OSError:
        certificates = None
    return {"certificates": certificates, "proxy": _bootstrap_files.apt_proxy(*proxies)}


def beside_compiler(toolkit: Mapping[str, Any], extensions: Mapping[str, Any]) -> list[str]:
    """The toolkit packages that are wanted beside the compiler, most without a series, which the container decides.

    An extension whose description is wrong asks for none: whoever builds it says what is wrong.
    """
    math = str(toolkit.get("math_libraries", "auto")).lower()
    wanted = [item for item in extensions.get("wanted") or [] if isinstance(item, Mapping)]
    try:
        needed = math == "true" or (math == "auto" and _extension_catalogue.math_headers_wanted(wanted))
    except (KeyError, TypeError, ValueError):
        needed = False
    return [*(_toolkit_plan.MATH_ROOTS if needed else ()), *map(str, toolkit.get("extra_packages") or [])]


def for_module(desired: Mapping[str, Any]) -> dict[str, Any]:
    """What the module in the container must know to look: places and names, and nothing to judge by."""
    environment, repository = desired["torch_environment"], desired["cuda_repository"]
    fast_path, extensions = desired["fast_path"], desired["cuda_extensions"].get("wanted") or []
    toolkit = desired["cuda_toolkit"]
    toolkit_names = [toolkit.get(name) or [] for name in ("beside_compiler", "versions", "build_packages")]
    return {
        "packages": desired["bootstrap"].get("packages") or [],
        "apt_mirror": desired["bootstrap"].get("apt_mirror"),
        "environment_path": environment.get("path"),
        "mirror": repository.get("mirror"),
        "toolkit_packages": [name for names in toolkit_names for name in names],
        "extensions": [item["name"] if isinstance(item, Mapping) else item for item in extensions],
        "devices": desired["gpu_passthrough"].get("devices") or [],
        "user": fast_path.get("training_user"),
        "model": fast_path.get("model"),
        "family": fast_path.get("family"),
        "environment": fast_path.get("environment") or {},
        "environment_files": fast_path.get("environment_files") or [],
        "proof_lengths": fast_path.get("proof_lengths") or [],
        "wanted_ratio": fast_path.get("wanted_ratio"),
    }


def without_secrets(value: Any, name: str = "") -> Any:
    """The same value to be shown: no logins in addresses, and nothing under a name that sounds like a secret."""
    if isinstance(value, Mapping):
        return {str(key): without_secrets(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_secrets(item, name) for item in value]
    if isinstance(value, str):
        return "(not shown)" if value and _SECRET.search(name) else _LOGIN.sub("***", value)
    return value
