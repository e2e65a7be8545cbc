# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command line: ``python3 -m testbed.cuda_repository build|serve|fault``."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from testbed.layout import layout

from . import faults, server
from .builder import build
from .errors import BuildError


def main(arguments: list[str] | None = None) -> int:
    """Run one command; 0 on success, 1 with one sentence on stderr when it cannot be done."""
    options = _parser().parse_args(arguments)
    started = time.monotonic()
    try:
        if options.command == "build":
            build(
                options.folder,
                options.cache,
                lambda text: print(f"[{time.monotonic() - started:6.1f} s] {text}", flush=True),
            )
        elif options.command == "fault":
            faults.FAULTS[options.name](options.folder, options.target)
        else:
            server.serve(options.folder, options.port, options.log, options.faults)
    except BuildError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m testbed.cuda_repository", description="A stand-in for NVIDIA's CUDA repository host."
    )
    box = layout()
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("build", help="build the repositories, or do nothing where they are current")
    make.add_argument("--folder", type=Path, default=box.cuda_repository, help="where to build (default: %(default)s)")
    cache = box.cache / "cuda_repository"
    make.add_argument(
        "--cache", type=Path, default=cache, help="wheels, packed packages and the key (default: %(default)s)"
    )
    fault = commands.add_parser("fault", help="derive a broken copy of a built folder")
    fault.add_argument("name", choices=sorted(faults.FAULTS))
    fault.add_argument("--folder", type=Path, required=True, help="the built folder")
    fault.add_argument("--target", type=Path, required=True, help="the copy to make")
    serve = commands.add_parser("serve", help="serve a built folder over HTTP on 127.0.0.1")
    serve.add_argument("--folder", type=Path, required=True, help="the built folder")
    serve.add_argument("--port", type=int, required=True)
    serve.add_argument("--log", type=Path, required=True, help="one JSON object a request")
    serve.add_argument("--faults", type=Path, default=None, help="rules read at each request (default: <log>.faults)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
