#!/usr/bin/python
# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_keyring
short_description: Install the key that signs NVIDIA's CUDA repository
version_added: "0.1.0"
author:
  - proxmox_gpu.training authors (@proxmox-gpu)
description:
  - Puts the key from NVIDIA's C(cuda-keyring) package where that package would put it.
  - The package's SHA-256 and the key's fingerprint are verified before anything is written. Only the key is taken - not
    the package's list file, which would register the repository a second time, nor its pin file - and no script of the
    package is run.
  - Nothing is downloaded and nothing is changed when the keyring file already holds one of the wanted keys.
options:
  url:
    description: Address of the package. The proxy variables of the environment are used.
    type: str
  deb:
    description: Path of the package on the target.
    type: path
  sha256:
    description:
      - The package's SHA-256.
      - It differs for each distribution and architecture, although the package's name is the same.
    type: str
    required: true
  fingerprints:
    description: Fingerprints of the keys that may sign the repository. The keyring has to hold at least one of them.
    type: list
    elements: str
    required: true
  path:
    description: Where to put the keyring.
    type: path
    default: /usr/share/keyrings/cuda-archive-keyring.gpg
  timeout:
    description: Seconds without an answer after which the download is given up.
    type: int
    default: 30
attributes:
  check_mode:
    support: full
    description: Can run in check mode without changing anything; nothing is downloaded then.
  diff_mode:
    support: full
    description: Shows the fingerprints before and after.
  idempotent:
    support: full
    description: A second run changes nothing.
  platform:
    support: full
    platforms: debian
    description: Systems that use apt.
seealso:
  - module: proxmox_gpu.training.cuda_sources
"""

EXAMPLES = r"""
- name: Install the key of NVIDIA's repository for Debian 12
  proxmox_gpu.training.cuda_keyring:
    url: https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/cuda-keyring_1.1-1_all.deb
    sha256: e7f219eab6fe4819cdb5c15b98233dc3420302d9c00883219cd3d896857cf48d
    fingerprints: [EB693B3035CD5710E231E123A4B469963BF863CC]
"""

RETURN = r"""
fingerprints:
  description: Fingerprints of the keys in the keyring after the run.
  returned: success
  type: list
  elements: str
  sample: [EB693B3035CD5710E231E123A4B469963BF863CC]
transient:
  description: Whether trying again later may help, as with an unreachable mirror.
  returned: failure
  type: bool
  sample: true
"""

import http.client
import os
import tempfile
import typing as t
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import ConnectionError as UrlsConnectionError
from ansible.module_utils.urls import SSLValidationError, open_url

from ansible_collections.proxmox_gpu.training.plugins.module_utils import _cuda_keyring as keyring_of
from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe.host import Host

# NVIDIA's package has 4 kB; what is far larger is something else.
LARGEST_DEB = 1 << 20


def download(url: str, timeout: int) -> bytes:
    """The package's bytes; Refused with one sentence if they cannot be had."""
    parts = urlsplit(url)
    proxy = "" if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme, "")
    try:
        return open_url(url, timeout=timeout, http_agent="proxmox_gpu.training").read(LARGEST_DEB)
    except (URLError, UrlsConnectionError, SSLValidationError, http.client.HTTPException, OSError, ValueError) as error:
        raise keyring_of.explain_download(error, url, proxy) from error


def read(path: str) -> bytes | None:
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return file.read()


def install(module: AnsibleModule, key: bytes) -> None:
    path = module.params["path"]
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o755, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".")
    with open(handle, "wb") as file:
        file.write(key)
    os.chmod(temporary, 0o644)  # apt reads keyrings as the user _apt
    module.atomic_move(temporary, path)


def publish(module: AnsibleModule) -> bool:
    """Whether the keyring, or its folder, had to be opened to apt's own user."""
    path = module.params["path"]
    private = Host().private(path) is not None
    if private and not module.check_mode:
        for place, bits in ((os.path.dirname(path), 0o755), (path, 0o644)):
            os.chmod(place, os.stat(place).st_mode | bits)
    return private


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str"},
            "deb": {"type": "path"},
            "sha256": {"type": "str", "required": True},
            "fingerprints": {"type": "list", "elements": "str", "required": True},
            "path": {"type": "path", "default": "/usr/share/keyrings/cuda-archive-keyring.gpg"},
            "timeout": {"type": "int", "default": 30},
        },
        mutually_exclusive=[("url", "deb")],
        required_one_of=[("url", "deb")],
        supports_check_mode=True,
    )
    wanted = [keyring_of.normalised(one) for one in module.params["fingerprints"]]
    source = module.params["url"] or module.params["deb"]
    try:
        before = keyring_of.held(read(module.params["path"]))
        if set(before) & set(wanted):
            module.exit_json(changed=publish(module), fingerprints=before)
        after = wanted
        if not module.check_mode:
            deb = download(source, module.params["timeout"]) if module.params["url"] else read(source)
            if deb is None:
                raise keyring_of.Refused(f"there is no file {source} on the target")
            keyring_of.check_sum(deb, module.params["sha256"], source)
            key = keyring_of.key_of_deb(deb, source)
            after = keyring_of.check_fingerprints(key, wanted, source)
            install(module, key)
    except keyring_of.Refused as refusal:
        module.fail_json(msg=str(refusal), transient=refusal.transient)
    except OSError as error:
        module.fail_json(msg=f"cannot install the keyring: {error.strerror}: {error.filename}", transient=False)
    result: dict[str, t.Any] = {"changed": True, "fingerprints": after}
    header = module.params["path"]
    result["diff"] = {
        "before": "".join(f"{one}\n" for one in before),
        "after": "".join(f"{one}\n" for one in after),
        "before_header": header,
        "after_header": header,
    }
    module.exit_json(**result)


if __name__ == "__main__":
    main()
