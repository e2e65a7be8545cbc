# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files that the role bootstrap writes by raw commands."""

from __future__ import annotations

DOCUMENTATION = r"""
name: bootstrap_files
short_description: Make the files that the role bootstrap writes
version_added: "0.1.0"
author:
  - proxmox_gpu.training authors (@proxmox-gpu)
description:
  - Takes certificates apart, one a file, and words the proxies as apt wants them.
  - For the role P(proxmox_gpu.training.bootstrap#role); of no use elsewhere.
positional: _input
options:
  _input:
    description: Files on the controller with certificates in PEM form.
    type: list
    elements: path
    required: true
  http_proxy:
    description: Proxy for HTTP.
    type: str
  https_proxy:
    description: Proxy for HTTPS.
    type: str
  no_proxy:
    description: Hosts to ask without a proxy, separated by commas.
    type: str
"""

EXAMPLES = r"""
- name: Show which certificates a file holds
  ansible.builtin.debug:
    msg: "{{ (['/etc/ssl/certs/proxy.pem'] | proxmox_gpu.training.bootstrap_files).certificates }}"
"""

RETURN = r"""
_value:
  description:
    - A dictionary with C(certificates), a dictionary of texts by file name, C(empty), the files without a certificate,
      C(apt_proxy), the text of apt's configuration, which is empty if there is no proxy, and C(distribution_hosts), an
      expression for the addresses that a mirror takes the place of.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.proxmox_gpu.training.plugins.module_utils._observe.base import DISTRIBUTION_HOSTS
from ansible_collections.proxmox_gpu.training.plugins.plugin_utils._bootstrap_files import apt_proxy, certificates


def bootstrap_files(
    paths: list[str], http_proxy: str | None = None, https_proxy: str | None = None, no_proxy: str | None = None
) -> dict[str, Any]:
    return {
        "certificates": certificates(paths),
        "empty": [path for path in paths if not certificates([path])],
        "apt_proxy": apt_proxy(http_proxy, https_proxy, no_proxy),
        "distribution_hosts": DISTRIBUTION_HOSTS,
    }


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"bootstrap_files": bootstrap_files}
