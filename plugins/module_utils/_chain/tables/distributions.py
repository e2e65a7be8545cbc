# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Distributions: the directory of NVIDIA's repository, its signing key, and the checksum of its keyring package."""

from __future__ import annotations

from dataclasses import dataclass, field

from .lookup import NotInTable, Source

SOURCE = Source(
    "NVIDIA's installation guide, and checksums and fingerprints seen in several public build files", "2026-11-30"
)

MIRROR = "https://developer.download.nvidia.com/compute/cuda/repos"
#: Where the keyring package puts the key.
KEYRING = "/usr/share/keyrings/cuda-archive-keyring.gpg"

#: The key of the older repositories. Its self-signature is SHA-1, which apt with sqv refuses since 2026-02-01.
OLD_KEY = "EB693B3035CD5710E231E123A4B469963BF863CC"
NEW_KEY = "02182E60104FCDC26EAE1B8597A5D4CB8793F200"
#: Keys that were replaced and sign nothing any more.
RETIRED_KEYS = {"AE09FE4BBD223A84B2CCFCE3F60F4B3D7FA2AF80": "withdrawn by NVIDIA in April 2022"}

#: uname -m -> directory below the distribution's.
ARCHITECTURES = {"x86_64": "x86_64", "aarch64": "sbsa"}


@dataclass(frozen=True)
class Distribution:
    """One row. keyrings: architecture directory -> sha256 of cuda-keyring_1.1-1_all.deb, where it is known.

    supported: roles of this collection are tested with it. verifier: the program by which its apt checks signatures.
    """

    directory: str
    keys: tuple[str, ...]
    supported: bool
    verifier: str
    gcc: int
    keyrings: dict[str, str] = field(default_factory=dict)


DISTRIBUTIONS = {
    ("ubuntu", "22.04"): Distribution(
        "ubuntu2204",
        (OLD_KEY,),
        True,
        "gpgv",
        11,
        {
            "x86_64": "d93190d50b98ad4699ff40f4f7af50f16a76dac3bb8da1eaaf366d47898ff8df",
            "sbsa": "36d1aed84dfcf93ee9a0212d149f1c4187db92e03ab96a759ec0689aa438fd9e",
        },
    ),
    ("ubuntu", "24.04"): Distribution(
        "ubuntu2404",
        (OLD_KEY,),
        True,
        "gpgv",
        13,
        {
            "x86_64": "d2a6b11c096396d868758b86dab1823b25e14d70333f1dfa74da5ddaf6a06dba",
            "sbsa": "6ea7d2737648936820e85677177957a0f6521b840d98eb0bbae0a4f003fa7249",
        },
    ),
    ("ubuntu", "26.04"): Distribution(
        "ubuntu2604",
        (NEW_KEY,),
        False,
        "sqv",
        15,
        {"x86_64": "f7f474b5f6a4adf987aa587920df00e713285958ef6a913dda1945a544a3099e"},
    ),
    ("debian", "12"): Distribution(
        "debian12",
        (OLD_KEY,),
        True,
        "gpgv",
        12,
        {
            "x86_64": "e7f219eab6fe4819cdb5c15b98233dc3420302d9c00883219cd3d896857cf48d",
            "sbsa": "bf2f53b1a19259501119f732bdef2699f8c80c69a18e6a78dad78d67d96766dc",
        },
    ),
    ("debian", "13"): Distribution("debian13", (NEW_KEY,), True, "sqv", 14),
}


def distribution(identity: object, version: object) -> Distribution | NotInTable:
    """The row of an os-release ID and VERSION_ID: ("debian", "12")."""
    row = DISTRIBUTIONS.get((str(identity or "").lower(), str(version or "")))
    return row if row else NotInTable(f"{identity} {version}", SOURCE)


def architecture(machine: object) -> str | NotInTable:
    """The repository's name of a machine: "sbsa" for "aarch64"."""
    row = ARCHITECTURES.get(str(machine or ""))
    return row if row else NotInTable(f"a machine of type {machine}", SOURCE)


def repository_url(
    mirror: object, identity: object, version: object, machine: object, directory: str | None = None
) -> str | NotInTable:
    """The address of the repository of one distribution and machine, with the closing slash.

    directory overrides the distribution's own, as the variable cuda_repository_distribution does.
    """
    row = distribution(identity, version)
    arch = architecture(machine)
    if not arch:
        return arch
    # A false row is a NotInTable, which mypy does not see.
    if not directory and not row:
        return row  # type: ignore[return-value]
    folder = directory or row.directory  # type: ignore[union-attr]
    return f"{str(mirror or MIRROR).rstrip('/')}/{folder}/{arch}/"


def supported() -> list[str]:
    """The distributions that the roles are tested with, as a reader writes them."""
    return [f"{name.capitalize()} {version}" for (name, version), row in DISTRIBUTIONS.items() if row.supported]


def keys_of(directory: object) -> tuple[str, ...]:
    """The fingerprints that sign a repository directory such as "debian12"; () when it is not in the table."""
    for row in DISTRIBUTIONS.values():
        if row.directory == directory:
            return row.keys
    return ()
