# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Where packages come from, in the words of pip and uv.

An address may hold a login, and everybody on the machine can read the arguments of every process: addresses are handed
over in the environment. Folders are arguments, since in a variable a blank would part them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Sources:
    """An index in place of the installer's own, more of them, and folders or pages with files."""

    index_url: str | None = None
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Sources:
        """Those that a module's parameters index_url, extra_index_urls and find_links name."""
        return cls(params["index_url"], tuple(params["extra_index_urls"]), tuple(params["find_links"]))

    def arguments(self) -> list[str]:
        return [word for place in self.find_links if not _address(place) for word in ("--find-links", place)]

    def pip_variables(self) -> dict[str, str]:
        """They take the place of the same settings in pip's configuration files."""
        return self._variables("PIP", " ")

    def uv_variables(self) -> dict[str, str]:
        return self._variables("UV", ",")

    def _variables(self, program: str, comma: str) -> dict[str, str]:
        pages = [place for place in self.find_links if _address(place)]
        found = {
            "INDEX_URL": self.index_url or "",
            "EXTRA_INDEX_URL": " ".join(self.extra_index_urls),
            "FIND_LINKS": comma.join(pages),
        }
        return {f"{program}_{name}": value for name, value in found.items() if value}


def _address(place: str) -> bool:
    return "://" in place
