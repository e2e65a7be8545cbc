# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""What went wrong with the Proxmox API, as one sentence. proxmoxer is not imported: exceptions are told by shape."""

from __future__ import annotations

import re
from typing import Any

UNREACHABLE, CERTIFICATE, LOGIN, FORBIDDEN, OFFLINE, MISSING, HALF, REFUSED = (
    "unreachable",
    "certificate",
    "login",
    "forbidden",
    "offline",
    "missing",
    "half",
    "refused",
)
_PRIVILEGE = re.compile(r"Permission check failed \((/[^,)]*), ([^)]*)\)")


class ApiError(Exception):
    """A sentence for a person. ``kind``: one of the words above; ``privilege``: (path, privilege) of a 403."""

    def __init__(self, sentence: str, kind: str = REFUSED, privilege: tuple[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.kind = kind
        self.privilege = privilege


def explain(error: Exception, where: str, who: str, path: str) -> ApiError:
    """``where``: the API's address or node; ``who``: the token, user or login that asked; ``path``: what was asked."""
    if isinstance(error, ApiError):
        return error
    name = type(error).__name__
    if name == "ResourceException":
        return _refused(error, where, who, path)
    if name == "SSLError":
        return ApiError(_certificate(str(error), where), CERTIFICATE)
    if name in ("ConnectTimeout", "ReadTimeout", "TimeoutExpired"):
        return ApiError(
            f"{where} gave no answer to {path} in time; look at the node, or raise the timeout.", UNREACHABLE
        )
    if name in ("ConnectionError", "ChunkedEncodingError", "ProxyError", "InvalidURL", "ContentDecodingError"):
        return _connection(str(error), where, path)
    if name in ("KeyError", "TypeError", "AttributeError", "JSONDecodeError"):
        return half(where, path, "no data in it")
    if name in ("FileNotFoundError", "PermissionError"):
        return ApiError(
            f"{where} has no such program: {error}; ask over https, or run this on a Proxmox node.", UNREACHABLE
        )
    return ApiError(f"{where} could not be asked for {path}: {name}: {error}.")


def half(where: str, path: str, what: str) -> ApiError:
    return ApiError(
        f"{where} gave half an answer to {path} ({what}); look at pveproxy on that node, and at a proxy in between.",
        HALF,
    )


def _certificate(text: str, where: str) -> str:
    if "certificate has expired" in text:
        return f"The certificate of {where} has expired; renew it on the node (pvecm updatecerts --force)."
    if "Fingerprints did not match" in text:
        return (
            f"The certificate of {where} has another fingerprint than the configured one; compare it with the one that "
            "the node shows (pvenode cert info) before you change the setting."
        )
    if "Hostname mismatch" in text or "doesn't match" in text or "IP address mismatch" in text:
        return f"The certificate of {where} is not for that name; use a name that it holds, or its fingerprint."
    if "certificate verify failed" in text:
        return (
            f"The certificate of {where} is signed by an authority that is not trusted here; give Proxmox's own "
            "(/etc/pve/pve-root-ca.pem) as the CA file, or the certificate's fingerprint."
        )
    return f"No TLS connection to {where}: {text}."


def _connection(text: str, where: str, path: str) -> ApiError:
    if "IncompleteRead" in text or "Connection broken" in text:
        return half(where, path, "the connection ended in the middle")
    if "RemoteDisconnected" in text or "Connection aborted" in text:
        return half(where, path, "the connection was closed without one")
    reason = "the connection could not be made"
    for needle, words in (
        ("Connection refused", "nothing listens there"),
        ("Name or service not known", "the name is unknown"),
        ("Temporary failure in name resolution", "the name cannot be looked up"),
        ("No route to host", "no route leads there"),
        ("Network is unreachable", "no route leads there"),
    ):
        reason = words if needle in text else reason
    return ApiError(
        f"{where} is not to be reached ({reason}); check its address and port, and pveproxy on it.", UNREACHABLE
    )


def _refused(error: Any, where: str, who: str, path: str) -> ApiError:
    """A ResourceException of proxmoxer: https has the reason phrase as its content, pvesh what was on stderr."""
    status = int(error.status_code)
    content = error.content.decode("utf-8", "replace") if isinstance(error.content, bytes) else str(error.content)
    said = next((line.strip() for line in content.splitlines() if line.strip()), "") or f"status {status}"
    match = _PRIVILEGE.search(content)
    if match:
        place, privilege = match.groups()
        wanted = privilege.replace("|", " or ")
        return ApiError(
            f"{who} lacks the privilege {wanted} on {place}, which {path} needs; grant a role with it there.",
            FORBIDDEN,
            (place, privilege),
        )
    if status == 401:
        return ApiError(
            f"{where} does not accept {who} ({said}); check the secret, and that neither it nor its user is disabled "
            "or expired.",
            LOGIN,
        )
    if status in (595, 596, 597, 599) or "proxy handler failed" in content:
        node = re.search(r"^/?nodes/([^/]+)/", path)
        name = f"Node {node.group(1)}" if node else "The node"
        return ApiError(f"{name} does not answer {where} ({said}); it is off, or cut off from its cluster.", OFFLINE)
    if "does not exist" in content:
        return ApiError(f"{where} says to {path}: {said}.", MISSING)
    if status == 400 and isinstance(error.errors, dict) and error.errors:
        said = "; ".join(f"{key}: {str(text).strip()}" for key, text in sorted(error.errors.items()))
    return ApiError(f"{where} refused {path} ({status}): {said.rstrip('.')}.")
