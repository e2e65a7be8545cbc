# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""One request to the repository, for whoever asked for it: the only part of an observation that leaves the machine."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from typing import Any


def fetch(url: str, proxy: str | None, timeout: float = 10.0) -> dict[str, Any]:
    """{url, status, error}: error is half a sentence, None when the server answered with the file."""
    if not url.startswith(("http://", "https://")):
        return {"url": url, "status": None, "error": None}
    handlers = [urllib.request.ProxyHandler({"http": proxy, "https": proxy})] if proxy else []
    try:
        opener = urllib.request.build_opener(*handlers)
        with opener.open(url, timeout=timeout) as answer:
            answer.read(1)
            return {"url": url, "status": answer.status, "error": None}
    except urllib.error.HTTPError as error:
        return {"url": url, "status": error.code, "error": f"it answers {error.code} {error.reason}"}
    except urllib.error.URLError as error:
        return {"url": url, "status": None, "error": _reason(error.reason)}
    except (OSError, ValueError) as error:
        return {"url": url, "status": None, "error": _reason(error)}


def _reason(reason: Any) -> str:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted here ({reason.verify_message})"
    if isinstance(reason, TimeoutError):
        return "it did not answer in time"
    return str(reason)
