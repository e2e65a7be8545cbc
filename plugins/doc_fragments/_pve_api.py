# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this doc fragment is **PRIVATE** to the collection.

from __future__ import annotations


class ModuleDocFragment:
    """Options that say how the Proxmox API is asked: their names are those of module_utils/_pve_access.py."""

    DOCUMENTATION = r"""
requirements:
  - proxmoxer >= 2.2
  - requests
options:
  api_backend:
    description:
      - How Proxmox is asked.
    type: str
    default: https
    choices:
      https: Its API, with a token or a password.
      pvesh: The program C(pvesh) on this machine, which is a node. It is always root there.
      ssh: The program C(pvesh) on O(api_host), over ssh.
  api_host:
    description:
      - Name or address of one of the cluster's nodes. Any of them answers for the whole cluster.
    type: str
  api_port:
    description:
      - The API's port.
    type: int
    default: 8006
  api_user:
    description:
      - The user with its realm, such as V(reader@pve); V(reader@pve!inventory) names a token with it.
      - With O(api_backend=ssh) the login on the node.
    type: str
  api_password:
    description:
      - The user's password. A token (O(api_token_id)) is better - it has no more rights than it needs and can be taken
        back alone.
    type: str
  api_token_id:
    description:
      - Name of an API token, the part after the C(!).
    type: str
  api_token_secret:
    description:
      - The token's secret.
    type: str
  api_ca_file:
    description:
      - The authority that signed the API's certificate. On a node it is V(/etc/pve/pve-root-ca.pem).
      - Without it and O(api_fingerprint) the system's authorities are asked. The certificate is always verified.
    type: path
  api_fingerprint:
    description:
      - SHA-256 fingerprint of the API's certificate, as C(pvenode cert info) shows it. It is then all that counts.
    type: str
  api_timeout:
    description:
      - Seconds for one request. Proxmox itself waits 3 before it refuses a login, and 30 for a node that hangs.
    type: int
    default: 40
  api_ssh_arguments:
    description:
      - Arguments of the ssh client for O(api_backend=ssh), such as a port or a key.
    type: list
    elements: str
    default: []
  api_sudo:
    description:
      - Run C(pvesh) through C(sudo), for a login that is not root.
    type: bool
    default: false
  api_parallel:
    description:
      - How many requests are made at the same time.
    type: int
    default: 16
"""
