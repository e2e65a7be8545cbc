# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each role's meta/argument_specs.yml and defaults/main.yml must name the same variables with the same defaults.

The defaults are what Ansible uses, the specification is what a reader and the validation see; a difference is
a lie in one of them. Also asked of each role: a README.md, and variables that begin with the role's name.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

CHECKOUT = Path(__file__).resolve().parents[1]


def load(path: Path) -> dict[str, Any]:
    return (yaml.safe_load(path.read_text(encoding="utf-8")) or {}) if path.is_file() else {}


def differences(role: Path) -> list[str]:
    """One sentence for each disagreement between a role's two descriptions of its variables."""
    defaults = load(role / "defaults" / "main.yml")
    options = load(role / "meta" / "argument_specs.yml").get("argument_specs", {}).get("main", {}).get("options", {})
    found = [] if (role / "README.md").is_file() else ["has no README.md"]
    for name in sorted(defaults.keys() | options.keys()):
        option = options.get(name)
        if not name.startswith(f"{role.name}_"):
            found.append(f"{name} does not begin with {role.name}_")
        elif option is None:
            found.append(f"{name} is in defaults/main.yml alone")
        elif name not in defaults:
            if not option.get("required"):
                found.append(f"{name} is in meta/argument_specs.yml alone and not required")
        elif not same_default(defaults[name], option.get("default")):
            found.append(f"{name} has the default {defaults[name]!r}, but {option.get('default')!r} is documented")
    return found


def same_default(real: Any, documented: Any) -> bool:
    """A template cannot be compared as text, so it may be documented in words; an empty value may be left out."""
    if isinstance(real, str) and "{{" in real:
        return True
    return real == documented or (documented is None and real in ("", [], {}, None))


def main() -> int:
    roles = sorted(path.parent for path in (CHECKOUT / "roles").glob("*/tasks"))
    failures = [f"roles/{role.name}: {sentence}" for role in roles for sentence in differences(role)]
    print("\n".join(failures) or f"{len(roles)} roles: defaults and argument specifications agree")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
