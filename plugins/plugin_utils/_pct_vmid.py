# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection.

"""Container ids as Proxmox accepts them (pve-vmid: 100 to 999999999), checked before any shell sees one."""

from __future__ import annotations

import re

_VMID = re.compile(r"[1-9][0-9]{2,8}")


class VmidError(ValueError):
    """The value can't be a container id; the message is a sentence for the user."""


def parse_vmid(value: object, origin: str) -> int:
    """Return the container id held by an int or a string of digits.

    origin says where the value came from (a variable, an environment variable, a file), for the error sentence.
    An INI inventory hands over an int, a YAML inventory or an extra variable often a string.
    """
    if value is None or value == "":
        raise VmidError(
            "No container id is set for this host; set pct_vmid (or proxmox_vmid) for it, for example pct_vmid: 200."
        )
    if isinstance(value, (int, str)) and not isinstance(value, bool) and _VMID.fullmatch(str(value)):
        return int(value)
    raise VmidError(
        f"{value!r} (from {origin}) is not a container id; "
        "Proxmox ids are whole numbers from 100 to 999999999, for example pct_vmid: 200."
    )
