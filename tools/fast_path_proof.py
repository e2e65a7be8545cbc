# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the one-file program: ``tools/fast_path_proof.py [FILE]`` (build/fast_path_proof.py when none is named).

The file is a zip archive that Python runs. It needs only what a training environment has, so it can be copied onto any
machine: ``python fast_path_proof.py --model DIR``.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]


def main(arguments: list[str]) -> int:
    sys.path.insert(0, str(CHECKOUT / "plugins" / "module_utils"))
    target = Path(arguments[0]) if arguments else CHECKOUT / "build" / "fast_path_proof.py"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(importlib.import_module("_fast_path.archive").build(header=True))
    target.chmod(0o755)
    print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
