# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""The ways to the Proxmox API through proxmoxer: https with a token or a ticket, or the node's own pvesh.

TLS is always verified: by the system's authorities, by a CA file, or by the certificate's fingerprint. pvesh runs here
(when this is the node) or over ssh; proxmoxer's own openssh backend needs openssh_wrapper, which Python 3.13 and later
cannot import, so its session is replaced by one that runs the ssh client and has a limit.
"""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ._pve_errors import LOGIN, ApiError, explain, half

HTTPS, PVESH, SSH = "https", "pvesh", "ssh"


@dataclass(frozen=True)
class Access:
    """How to ask. ``timeout``: seconds for one request, above the 3 that Proxmox waits before it says 401."""

    backend: str = HTTPS
    host: str = ""
    port: int = 8006
    user: str = ""
    password: str = ""
    token_id: str = ""
    token_secret: str = ""
    ca_file: str = ""
    fingerprint: str = ""
    timeout: int = 30
    ssh_arguments: list[str] = field(default_factory=list)
    sudo: bool = False
    parallel: int = 16

    @property
    def where(self) -> str:
        return {HTTPS: f"https://{self.host}:{self.port}", PVESH: "pvesh on this node"}.get(
            self.backend, f"pvesh on {self.host}"
        )

    @property
    def who(self) -> str:
        if self.backend != HTTPS:
            return f"login {self.user}" if self.user else "this login"
        return f"token {self.user}!{self.token_id}" if self.token_id else f"user {self.user}"


#: Option of plugins and modules → field of Access.
OPTIONS = {
    "api_backend": "backend",
    "api_host": "host",
    "api_port": "port",
    "api_user": "user",
    "api_password": "password",
    "api_token_id": "token_id",
    "api_token_secret": "token_secret",
    "api_ca_file": "ca_file",
    "api_fingerprint": "fingerprint",
    "api_timeout": "timeout",
    "api_ssh_arguments": "ssh_arguments",
    "api_sudo": "sudo",
    "api_parallel": "parallel",
}


def argument_spec() -> dict[str, dict[str, Any]]:
    """The options of doc fragment _pve_api for a module."""
    return {
        "api_backend": {"default": HTTPS, "choices": [HTTPS, PVESH, SSH]},
        "api_host": {},
        "api_port": {"type": "int", "default": 8006},
        "api_user": {},
        "api_password": {"no_log": True},
        "api_token_id": {"no_log": False},
        "api_token_secret": {"no_log": True},
        "api_ca_file": {"type": "path"},
        "api_fingerprint": {},
        "api_timeout": {"type": "int", "default": 40},
        "api_ssh_arguments": {"type": "list", "elements": "str", "default": []},
        "api_sudo": {"type": "bool", "default": False},
        "api_parallel": {"type": "int", "default": 16},
    }


def access_from(options: Mapping[str, Any]) -> Access:
    """From options by the names above; what is None keeps its default. ApiError says what is missing."""
    given = {name: options[key] for key, name in OPTIONS.items() if options.get(key) is not None}
    user, _bang, token = str(given.get("user", "")).partition("!")
    if token and not given.get("token_id"):  # Proxmox shows a token as user@realm!id
        given.update(user=user, token_id=token)
    access = Access(**given)
    if access.backend != PVESH and not access.host:
        raise ApiError("api_host is not set; give the name or address of one of the cluster's nodes.")
    if access.backend == HTTPS:
        if "@" not in access.user:
            raise ApiError(f"api_user is {access.user!r}; give user@realm, such as root@pam or reader@pve.", LOGIN)
        if not access.password and not (access.token_id and access.token_secret):
            raise ApiError("Neither api_token_id with api_token_secret nor api_password is set.", LOGIN)
    return access


def connect(access: Access) -> Any:
    """proxmoxer's resource tree for this access. Raises ApiError; with a password this logs in."""
    try:
        import requests  # noqa: F401, proxmoxer ends the process when it is missing
        from proxmoxer.core import ProxmoxResource
    except ImportError as error:
        raise ApiError(f"The Python package {error.name} is missing here: pip install proxmoxer requests.") from None
    if access.backend != HTTPS:
        from proxmoxer.backends.command_base import JsonSimpleSerializer

        return ProxmoxResource(base_url="", session=pvesh_session(access), serializer=JsonSimpleSerializer())
    from proxmoxer.backends.https import JsonSerializer

    host = f"[{access.host}]" if ":" in access.host else access.host
    base_url = f"https://{host}:{access.port}/api2/json"
    return ProxmoxResource(base_url=base_url, session=https_session(access, base_url), serializer=JsonSerializer())


def https_session(access: Access, base_url: str) -> Any:
    import requests
    from proxmoxer.backends.https import ProxmoxHTTPApiTokenAuth, ProxmoxHTTPAuth, ProxmoxHttpSession
    from requests.adapters import HTTPAdapter

    class Pinned(HTTPAdapter):
        """Connections whose certificate has the given fingerprint; as many kept open as are used in parallel."""

        def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
            if access.fingerprint:
                options["assert_fingerprint"] = access.fingerprint
            super().init_poolmanager(*arguments, **options)

    class Ticket(ProxmoxHTTPAuth):
        """proxmoxer's, with the login over the same verified connection."""

        pve_auth_ticket: str = ""

        def _get_new_tokens(self, password: Any = None, otp: Any = None, otptype: Any = None) -> None:
            data = {"username": self.username, "password": password or self.pve_auth_ticket}
            plain = requests.Session()
            plain.mount("https://", Pinned())
            try:
                address = f"{self.base_url}/access/ticket"
                answer = plain.post(address, data=data, verify=self.verify_ssl, timeout=self.timeout)
                found = answer.json().get("data") if answer.status_code == 200 else {}
            except (requests.RequestException, ValueError, AttributeError) as error:
                raise explain(error, access.where, access.who, "/access/ticket") from None
            if answer.status_code in (400, 401):
                raise ApiError(
                    f"{access.where} does not accept the password of {access.who} ({answer.reason}); check user, realm "
                    "and password.",
                    LOGIN,
                )
            if answer.status_code != 200:
                raise ApiError(f"{access.where} refused /access/ticket ({answer.status_code}): {answer.reason}.")
            if not isinstance(found, dict) or not {"ticket", "CSRFPreventionToken"} <= set(found):
                raise half(access.where, "/access/ticket", "no ticket in it")
            if found.get("NeedTFA"):
                raise ApiError(
                    f"{access.who} has a second factor, which nobody can answer here; use an API token.", LOGIN
                )
            self.pve_auth_ticket = found["ticket"]
            self.csrf_prevention_token = found["CSRFPreventionToken"]
            self.birth_time = time.monotonic()

    verify: Any = False if access.fingerprint else (access.ca_file or True)
    if access.token_id:
        auth = ProxmoxHTTPApiTokenAuth(
            access.user, access.token_id, access.token_secret, verify_ssl=verify, timeout=access.timeout
        )
    else:
        auth = Ticket(access.user, access.password, base_url=base_url, verify_ssl=verify, timeout=access.timeout)
    session = ProxmoxHttpSession()
    session.auth = auth
    session.headers["accept"] = "application/json"
    session.mount("https://", Pinned(pool_maxsize=access.parallel, pool_connections=1))
    return session


def pvesh_session(access: Access) -> Any:
    from proxmoxer.backends.command_base import CommandBaseSession

    class Session(CommandBaseSession):
        """One pvesh process a request, ended at the limit."""

        def _exec(self, words: list[str]) -> tuple[str, str, int]:
            command = [*(["sudo", "-n"] if access.sudo else []), *words]
            if access.backend == SSH:
                login = f"{access.user}@{access.host}" if access.user else access.host
                command = ["ssh", "-o", "BatchMode=yes", *access.ssh_arguments, "--", login, shlex.join(command)]
            done = subprocess.run(  # pylint: disable=ansible-bad-function  # an inventory has no module to run it
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=self.timeout, check=False
            )
            if done.returncode == 255 and access.backend == SSH and not done.stdout and _is_ssh(done.stderr):
                last = done.stderr.strip().splitlines()[-1]
                raise ApiError(f"ssh to {access.host} failed: {last.rstrip('.')}.", "unreachable")
            if done.returncode in (1, 127) and "sudo:" in done.stderr:
                raise ApiError(
                    f"{access.who} may not run pvesh through sudo on {access.host or 'this node'}; add the sudoers "
                    "line of docs/guides/permissions.md, or log in as root.",
                    LOGIN,
                )
            if done.returncode == 127:
                raise ApiError(f"There is no pvesh on {access.host or 'this machine'}: it is no Proxmox node.")
            # A warning on stderr (a locale, an old plugin) is no error where the command succeeded; how a task
            # ended is asked for by its UPID.
            return done.stdout, "" if done.returncode == 0 else done.stderr, done.returncode

    return Session(timeout=access.timeout)


def _is_ssh(text: str) -> bool:
    """Whether the words are the ssh client's own, not pvesh's."""
    own = (
        "ssh:",
        "command-line:",
        "Permission denied (",
        "Host key verification failed",
        "kex_exchange",
        "Connection closed",
        "Connection to ",
    )
    return any(line.startswith(own) or "Permission denied (" in line for line in text.splitlines())
