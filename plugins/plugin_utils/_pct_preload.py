# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection.

"""Load the connection plugin once, in the process that starts Ansible's workers.

ansible-core loads its own connection plugins before it forks, and a collection's anew in the worker of each task of
each host: 15 ms of processor. Inventory plugins and the classes of action plugins are loaded before the fork, so those
of this collection bring the connection plugin along.
"""

from __future__ import annotations

import contextlib

from ansible.errors import AnsibleError
from ansible.plugins.loader import connection_loader


def preload() -> None:
    """Have the plugin's class and its options ready. What keeps it from loading is said where it is used."""
    with contextlib.suppress(AnsibleError, ImportError):
        connection_loader.get("proxmox_gpu.training.pct_exec", class_only=True)
