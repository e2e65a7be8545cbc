# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The box's web server: the CUDA repository's folder on a loopback port, ``python3 -m testbed.web FOLDER PORT``."""

from __future__ import annotations

import functools
import http.server
import sys


class Handler(http.server.SimpleHTTPRequestHandler):
    """Static files with keep-alive, as apt likes it; requests go to the log on stderr."""

    protocol_version = "HTTP/1.1"


def main(arguments: list[str]) -> None:
    folder, port = arguments
    handler = functools.partial(Handler, directory=folder)
    http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), handler).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
