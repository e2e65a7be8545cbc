# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The https side of the stand-in, and the socket that `pvesh` asks: ``python3 -m testbed.api_standin.server STATE``.

One process serves every node's port. JSON keys and lists come in random order, as pveproxy's do.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import socket
import socketserver
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from testbed import state
from testbed.api_standin import certificates, settings
from testbed.api_standin.access import Caller
from testbed.api_standin.refusal import Refusal
from testbed.api_standin.routes import World
from testbed.layout import Layout, NodeLayout

PREFIX = "/api2/json"


class Handler(BaseHTTPRequestHandler):
    """One connection of a client. The server carries ``world`` and the name of the node that was asked."""

    protocol_version = "HTTP/1.1"
    server_version = "pve-api-daemon/3.0"
    timeout = 60
    server: Server

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_DELETE = do_GET

    def _serve(self) -> None:
        path, _, query = self.path.partition("?")
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length).decode() if length else ""
        given = settings.load(self.server.world.settings_path)
        what = f"{self.command} {path.removeprefix(PREFIX)}"
        fault = next((fault for pattern, fault in given["broken"].items() if re.search(pattern, what)), None)
        time.sleep(next((float(text) for pattern, text in given["slow"].items() if re.search(pattern, what)), 0))
        try:
            if not path.startswith(f"{PREFIX}/"):
                raise Refusal(500, f"no such file '{path}'")
            if fault in ("595", "596"):
                reason = "Connection refused" if fault == "595" else "Connection timed out"
                raise Refusal(int(fault), reason, empty=True)
            parameters = dict(urllib.parse.parse_qsl(query or body, keep_blank_values=True))
            data = self._answer(given, urllib.parse.unquote(path.removeprefix(PREFIX)), parameters)
        except Refusal as refusal:
            if refusal.status == 401:
                time.sleep(float(given["unauthorized_delay"]))
            content = b"" if refusal.empty else json.dumps(refusal.body()).encode()
            self._send(refusal.status, refusal.reason, content)
            return
        self._send(200, "OK", json.dumps({"data": shuffled(data)}).encode(), fault)

    def _answer(self, given: dict[str, Any], path: str, parameters: dict[str, str]) -> Any:
        world = self.server.world
        if self.server.node is None:  # pvesh's socket: root of the node that it names
            asked = self.headers["X-Node"]
            return world.answer(Caller("root@pam", literal_root=True), asked, self.command, path, parameters)
        if (self.command, path) == ("POST", "/access/ticket"):
            return world.tickets.login(given, parameters)
        headers = {name.lower(): text for name, text in self.headers.items()}
        caller = world.tickets.caller(given, headers, self.command)
        return world.answer(caller, self.server.node, self.command, path, parameters)

    def _send(self, status: int, reason: str, content: bytes, fault: str | None = None) -> None:
        if fault == "close":
            self.close_connection = True
            return
        if fault == "html":
            content = b"<html><body>Bad gateway</body></html>"
        elif fault == "half":
            content = re.sub(rb'"(vmid|name|node|ticket)": [^,}]+(, )?', b"", content)
        self.send_response(status, reason)
        self.send_header("Content-Type", "application/json;charset=UTF-8")
        self.send_header("Content-Length", str(0 if fault == "empty" else len(content)))
        self.end_headers()
        if fault == "cut":
            content = content[: len(content) // 2]
            self.close_connection = True
        if fault != "empty":
            self.wfile.write(content)

    def log_message(
        self,
        format: str,  # noqa: A002, the base class calls it so
        *arguments: object,
    ) -> None:
        """One line a request in ``api.log``: the tests count them."""
        with open(self.server.world.box.state / "api.log", "a") as file:
            file.write(f"{self.server.node or 'pvesh'} {self.command} {self.path}\n")

    def log_error(self, *arguments: object) -> None:
        pass


def shuffled(data: Any) -> Any:
    """The same with keys and lists of objects in random order; lists of pairs and lines keep theirs."""
    if isinstance(data, dict):
        items = list(data.items())
        random.shuffle(items)
        return {key: shuffled(value) for key, value in items}
    if isinstance(data, list) and data and isinstance(data[0], dict) and not {"n", "snaptime"} & set(data[0]):
        return random.sample([shuffled(one) for one in data], len(data))
    return data


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    world: World
    node: str | None = None

    def finish_request(self, request: Any, client_address: Any) -> None:
        """In the connection's own thread, so that a client that says nothing holds up nobody."""
        if self.node is not None:
            kind = settings.load(self.world.settings_path)["certificate"]
            request.settimeout(60)
            with contextlib.suppress(OSError):
                secured = certificates.context(self.world.box, kind).wrap_socket(request, server_side=True)
                with contextlib.closing(secured):
                    super().finish_request(secured, client_address)
            return
        super().finish_request(request, ("pvesh", 0))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class PveshServer(Server):
    address_family = socket.AF_UNIX

    def server_bind(self) -> None:
        Path(str(self.server_address)).unlink(missing_ok=True)
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "pvesh", 0


def port_key(node: NodeLayout) -> str:
    return f"api {node.name}"


def serve(box: Layout) -> None:
    world = World(box)
    ports = state.load_ports(box)
    servers: list[Server] = [PveshServer("api.sock", Handler)]  # type: ignore[arg-type]
    for node in box.nodes:
        server = Server(("127.0.0.1", ports[port_key(node)]), Handler)
        server.node = node.name
        servers.append(server)
    for server in servers:
        server.world = world
        threading.Thread(target=server.serve_forever, daemon=True).start()
    threading.Event().wait()
