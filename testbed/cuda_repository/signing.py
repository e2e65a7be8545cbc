# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in's signing keys, made and used through gpg in throw-away homes.

A key lives as four files in a folder of its own (secret.asc, public.asc, public.gpg, fingerprint). Its owner's name
says that it is a stand-in. gpg never sees the person's own key ring.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import BuildError

OWNER = "cudatools stand-in (testbed) <cudatools@testbed.invalid>"
_TIMEOUT = 120


@dataclass(frozen=True)
class Key:
    """A signing key on disk. ``fingerprint`` is 40 upper-case hexadecimal digits."""

    folder: Path

    @property
    def fingerprint(self) -> str:
        return (self.folder / "fingerprint").read_text().strip()

    @property
    def short(self) -> str:
        """The last eight digits in lower case, as NVIDIA names its ``.pub`` files."""
        return self.fingerprint[-8:].lower()

    @property
    def armored(self) -> bytes:
        return (self.folder / "public.asc").read_bytes()

    @property
    def binary(self) -> bytes:
        return (self.folder / "public.gpg").read_bytes()


class _Home:
    """A gpg home for the time of a ``with`` block; its path is short, because a socket's may have 107 bytes."""

    def __enter__(self) -> _Home:
        self._folder = Path(tempfile.mkdtemp(prefix="gpg-", dir="/tmp"))
        return self

    def __exit__(self, *_: object) -> None:
        self._call(["gpgconf", "--kill", "all"], b"")
        shutil.rmtree(self._folder, ignore_errors=True)

    def gpg(self, *arguments: str, stdin: bytes = b"", at: str = "") -> bytes:
        """Run gpg and return its output; ``at`` ("20200101T000000") sets the time that it believes in."""
        clock = ["--faked-system-time", f"{at}!"] if at else []
        head = ["gpg", "--batch", "--quiet", "--no-tty", "--pinentry-mode", "loopback", "--passphrase", "", *clock]
        return self._call([*head, *arguments], stdin)

    def _call(self, command: Sequence[str], stdin: bytes) -> bytes:
        environment = {**os.environ, "GNUPGHOME": str(self._folder), "LC_ALL": "C.UTF-8"}
        try:
            done = subprocess.run(
                command, input=stdin, capture_output=True, timeout=_TIMEOUT, env=environment, check=False
            )
        except FileNotFoundError as exc:
            raise BuildError(f"{command[0]} is missing: install Debian's package gnupg.") from exc
        except subprocess.TimeoutExpired as exc:
            raise BuildError(f"{command[0]} did not answer within {_TIMEOUT} s.") from exc
        if done.returncode:
            reason = done.stderr.decode(errors="replace").strip().splitlines()
            raise BuildError(f"{command[0]} failed: {reason[-1] if reason else f'exit status {done.returncode}'}")
        return done.stdout


def create(
    folder: Path, algorithm: str = "rsa4096", expire: str = "never", at: str = "", binding: str = "SHA512"
) -> Key:
    """Make a new key in ``folder``, which must not exist. NVIDIA's keys are rsa4096 as well.

    ``expire`` as gpg takes it ("30d"); ``at`` lets the key be made in the past, so that it can have expired;
    ``binding`` is the hash of the signature that binds the owner's name to the key.
    """
    with _Home() as home:
        home.gpg("--cert-digest-algo", binding, "--quick-generate-key", OWNER, algorithm, "sign", expire, at=at)
        listing = home.gpg("--with-colons", "--list-keys").decode()
        fingerprint = next(line.split(":")[9] for line in listing.splitlines() if line.startswith("fpr:"))
        draft = folder.with_name(f".{folder.name}.{os.getpid()}")
        draft.mkdir(parents=True, mode=0o700)
        (draft / "secret.asc").write_bytes(home.gpg("--armor", "--export-secret-keys", fingerprint))
        (draft / "public.asc").write_bytes(home.gpg("--armor", "--export", fingerprint))
        (draft / "public.gpg").write_bytes(home.gpg("--export", fingerprint))
        (draft / "fingerprint").write_text(f"{fingerprint}\n")
        draft.rename(folder)
    return Key(folder)


class Signer:
    """Signs index files with one key; use as a context manager, one gpg home for any number of signatures."""

    def __init__(self, key: Key, at: str = "") -> None:
        self._key, self._at = key, at

    def __enter__(self) -> Signer:
        self._home = _Home().__enter__()
        self._home.gpg("--import", str(self._key.folder / "secret.asc"))
        return self

    def __exit__(self, *details: object) -> None:
        self._home.__exit__(*details)

    def clear(self, content: bytes) -> bytes:
        """``content`` with an inline signature: InRelease."""
        return self._home.gpg("--clearsign", "--personal-digest-preferences", "SHA256", stdin=content, at=self._at)

    def detached(self, content: bytes) -> bytes:
        """An armored signature beside ``content``: Release.gpg."""
        digest = ("--personal-digest-preferences", "SHA512")
        return self._home.gpg("--armor", "--detach-sign", *digest, stdin=content, at=self._at)
