# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Link 5: exactly one entry for NVIDIA's CUDA repository, of this distribution and machine, signed by the expected key,
and apt has verified it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..catalogue import entry, provision
from ..finding import Finding
from ..links import ABSENT, BROKEN, DRIFTED, NOT_APPLICABLE, OK, UNKNOWN
from ..look import Look
from ..tables import distributions
from . import _repository_entries as entries_of

ROLE = "cuda_repository"
REPAIR = provision(ROLE)

FITS = entry(
    "repository.ok", OK, "{url} is registered once, signed by the expected key, and verified by apt.", cause=""
)
LOCAL = entry(
    "repository.local",
    OK,
    "CUDA packages come from a repository on the container's own disk ({url}).",
    cause="NVIDIA's local installer package (cuda-repo-...-local) was used.",
)
LISTS_CLEANED = entry(
    "repository.lists_cleaned",
    OK,
    "{url} is registered once with the expected key; apt's lists were emptied, and the packages from it are installed.",
    cause="Image recipes delete /var/lib/apt/lists to save space; the next apt-get update brings them back.",
)
NOT_NEEDED = entry("repository.not_needed", NOT_APPLICABLE, "No CUDA packages are needed: {reason}.", cause="")
ABSENT_ENTRY = entry(
    "repository.absent",
    ABSENT,
    "NVIDIA's CUDA repository is not registered with apt{detail}, so no compiler for CUDA can be installed "
    "('Unable to locate package cuda-nvcc-...').",
    cause="cuda-keyring was never installed, or its list file was removed or disabled.",
    remedy=REPAIR,
)
MALFORMED = entry(
    "repository.malformed_source",
    BROKEN,
    "apt cannot read {file} ({problem}), and refuses every installation until it can.",
    cause="A sources file was edited by hand or written half; apt stops at the first one it cannot read.",
    remedy="Correct or move away {file}, then: " + REPAIR,
)
CONFLICT = entry(
    "repository.conflicting_signed_by",
    BROKEN,
    "Two entries for {url} name different keys ({files}), and apt stops completely because of that.",
    cause="An old cuda.list was left when cuda-keyring brought its own list (NVIDIA changed its key in 2022).",
    remedy=REPAIR,
)
DUPLICATE = entry(
    "repository.duplicate",
    BROKEN,
    "The CUDA repository is registered {count} times ({files}); apt warns at each run, and one of them will be "
    "forgotten at the next change.",
    cause="cuda-keyring brings a list of its own beside one written by hand or by another tool.",
    remedy=REPAIR,
)
WRONG_DISTRIBUTION = entry(
    "repository.wrong_distribution",
    BROKEN,
    "{file} registers NVIDIA's repository for {found}, but this is {system}, which needs {wanted}: packages for "
    "another release do not install, or pull in libraries that do not exist here.",
    cause="A recipe for another distribution was copied, or the distribution was upgraded under the entry.",
    remedy=REPAIR,
)
WRONG_ARCHITECTURE = entry(
    "repository.wrong_architecture",
    BROKEN,
    "{file} registers NVIDIA's repository for {found}, but this machine is {machine}, which needs {wanted}.",
    cause="NVIDIA calls arm servers sbsa; a recipe for another processor was copied.",
    remedy=REPAIR,
)
UNSIGNED = entry(
    "repository.unsigned",
    BROKEN,
    "{file} tells apt to accept the CUDA repository without checking its signature ({option}), so anybody between "
    "here and the mirror can install anything.",
    cause="A signature error was silenced instead of repaired.",
    remedy=REPAIR,
)
KEYRING_MISSING = entry(
    "repository.keyring_missing",
    BROKEN,
    "{file} is signed by {keyring}, and that file {problem}, so apt refuses the repository (NO_PUBKEY).",
    cause="cuda-keyring was removed or its keyring emptied while the entry stayed.",
    remedy=REPAIR,
)
KEYRING_PRIVATE = entry(
    "repository.keyring_unreadable",
    BROKEN,
    "{file} is signed by {keyring}, which apt's own user _apt may not read ({problem}), so apt refuses the repository "
    "(NO_PUBKEY) although the key is right.",
    cause="The keyring was written under a strict umask (077), or copied with root's rights alone.",
    remedy=REPAIR,
)
WRONG_KEY = entry(
    "repository.wrong_key",
    BROKEN,
    "The keyring {keyring} does not hold the key that signs the CUDA repository ({wanted}){detail}, so apt refuses it.",
    cause="The key of another year or of another repository was installed.",
    remedy=REPAIR,
)
KEY_REFUSED = entry(
    "repository.key_refused",
    BROKEN,
    "This apt refuses the key {key} (its self-signature is SHA-1, not accepted since 2026-02-01), and {url} is signed "
    "by no other.",
    cause="apt that verifies with sqv (Debian 13 and newer) rejects NVIDIA's older key; only the newest repositories "
    "have another one.",
    remedy="Use the repository of the container's own distribution: " + REPAIR,
)
BAD_SIGNATURE = entry(
    "repository.bad_signature",
    BROKEN,
    "The index of {url} that apt holds is not signed by the key that its entry names: {problem}.",
    cause="The keyring was exchanged after the last update, or the mirror serves an index signed by somebody else.",
    remedy=REPAIR,
)
NOT_FETCHED = entry(
    "repository.not_fetched",
    UNKNOWN,
    "{url} is registered, but apt holds no verified index of it, so nobody knows whether it answers or is signed "
    "rightly.",
    cause="apt-get update was not run since the entry was made, or it failed: no network, a proxy, a bad signature.",
    remedy=REPAIR,
)
UNREACHABLE = entry(
    "repository.unreachable",
    UNKNOWN,
    "{url} did not answer apt just now: {problem}.",
    cause="No route, a name that does not resolve, a mirror that is down or being published: it may pass by itself.",
    remedy="Try again later; set cuda_repository_proxy or cuda_repository_mirror if this host needs one, then: "
    + REPAIR,
)
REFUSED = entry(
    "repository.refused",
    BROKEN,
    "apt cannot fetch {url}: {problem}.",
    cause="A proxy that wants a login, a certificate that is not trusted here, a mirror without this repository, a "
    "login page, or a keyring that apt's own user may not read.",
    remedy="Do what the sentence says, then: " + REPAIR,
)
OTHER_MIRROR = entry(
    "repository.other_mirror",
    DRIFTED,
    "The CUDA repository is registered from {url}, and {wanted} is wanted (cuda_repository_mirror).",
    cause="The mirror was changed in the variables, or the entry by hand.",
    remedy=REPAIR,
)


def judge(look: Look) -> Iterable[Finding]:
    facts = look.section("repository")
    enabled = [item for item in facts.get("entries") or [] if item.get("enabled", True)]
    malformed = (facts.get("malformed") or [])[:1]
    for item in malformed:
        yield MALFORMED.finding(file=item["file"], problem=item["problem"], evidence="apt-get check")
    if not enabled:
        if not malformed:
            yield _none_enabled(look, facts)
        return
    findings = [*_doubled(enabled), *_places(look, facts, enabled), *_keys(look, facts, enabled)]
    if not findings:
        findings = [_fetched(look, facts, enabled[0])]
    yield from findings


def _none_enabled(look: Look, facts: dict[str, Any]) -> Finding:
    reason = look.nothing_to_compile or by_hand(look)
    if reason:
        return NOT_NEEDED.finding(reason=reason)
    disabled = sorted({item["file"] for item in facts.get("entries") or []})
    detail = f" (its entry in {', '.join(disabled)} is disabled)" if disabled else ""
    return ABSENT_ENTRY.finding(
        detail=detail, expected=expected_url(look), observed="none", evidence="/etc/apt/sources.list.d"
    )


def by_hand(look: Look) -> str | None:
    """The half sentence for a compiler of torch's CUDA that no package owns: the runfile installer, conda, pip."""
    for nvcc in look.usable_nvccs:
        if not nvcc.get("package"):
            return f"the compiler at {nvcc['path']} was installed without packages"
    return None


def expected_url(look: Look) -> str | None:
    """The address that the roles would register; None for a system that is not in the table."""
    release = look.section("base").get("os") or {}
    url = distributions.repository_url(
        look.wish(ROLE, "mirror"),
        release.get("id"),
        release.get("version_id"),
        look.section("base").get("machine"),
        look.wish(ROLE, "distribution"),
    )
    return str(url) if url else None


def _doubled(enabled: list[dict[str, Any]]) -> Iterable[Finding]:
    for url, same in entries_of.by_address(enabled).items():
        files = ", ".join(sorted({item["file"] for item in same}))
        if len({item.get("signed_by") or "" for item in same}) > 1:
            yield CONFLICT.finding(url=url, files=files, observed=[item.get("signed_by") or "no key" for item in same])
            return
    if len(enabled) > 1:
        files = ", ".join(f"{item['file']}" for item in enabled)
        yield DUPLICATE.finding(count=len(enabled), files=files, expected="one entry", observed=len(enabled))


def _places(look: Look, facts: dict[str, Any], enabled: list[dict[str, Any]]) -> Iterable[Finding]:
    url = facts.get("url") or expected_url(look)
    wanted = entries_of.place(url)
    system = (look.section("base").get("os") or {}).get("pretty_name")
    for item in enabled:
        found = entries_of.place(item.get("uri"))
        if not wanted or not found:
            continue
        words = {"file": item["file"], "evidence": item["file"], "expected": url, "observed": item["uri"]}
        if found[0] != wanted[0]:
            yield WRONG_DISTRIBUTION.finding(found=found[0], wanted=wanted[0], system=system, **words)
        elif found[1] != wanted[1]:
            machine = look.section("base").get("machine")
            yield WRONG_ARCHITECTURE.finding(found=found[1], wanted=wanted[1], machine=machine, **words)
        elif look.explicit(ROLE, "mirror") and entries_of.address(item["uri"]) != entries_of.address(url):
            yield OTHER_MIRROR.finding(url=item["uri"], wanted=url, expected=url, observed=item["uri"])


def _keys(look: Look, facts: dict[str, Any], enabled: list[dict[str, Any]]) -> Iterable[Finding]:
    for item in enabled:
        problem = entries_of.unsigned(item)
        if problem:
            yield UNSIGNED.finding(file=item["file"], option=problem, evidence=item["file"])
            continue
        if entries_of.is_local(item):
            continue
        yield from _key_of(look, facts, item)


def _key_of(look: Look, facts: dict[str, Any], item: dict[str, Any]) -> Iterable[Finding]:
    keyring = entries_of.keyring_of(facts, item)
    wanted = entries_of.wanted_keys(look, item)
    if keyring is None or not wanted:
        return
    name, held = keyring.get("path") or "the sources file", keyring.get("fingerprints") or []
    if not held:
        problem = keyring.get("problem") or "holds no key" if keyring.get("exists") else "does not exist"
        yield KEYRING_MISSING.finding(file=item["file"], keyring=name, problem=problem, evidence=name, expected=wanted)
    elif keyring.get("private"):
        yield KEYRING_PRIVATE.finding(file=item["file"], keyring=name, problem=keyring["private"], evidence=name)
    elif not set(held) & set(wanted):
        retired = [distributions.RETIRED_KEYS[key] for key in held if key in distributions.RETIRED_KEYS]
        yield WRONG_KEY.finding(
            keyring=name,
            wanted=wanted[0][-8:],
            detail=f"; the key it holds was {retired[0]}" if retired else "",
            expected=wanted,
            observed=held,
            evidence=name,
        )
    elif facts.get("verifier") == "sqv" and set(held) & set(wanted) == {distributions.OLD_KEY}:
        yield KEY_REFUSED.finding(key=distributions.OLD_KEY[-8:], url=item["uri"], observed=held, evidence=name)


def _fetched(look: Look, facts: dict[str, Any], item: dict[str, Any]) -> Finding:
    url = item["uri"]
    if entries_of.is_local(item):
        return LOCAL.finding(url=url)
    network = facts.get("network") or {}
    if network.get("error"):
        kind = UNREACHABLE if network.get("transient") else REFUSED
        words = {"observed": network.get("kind"), "evidence": f"apt-get update, of {network.get('url')} alone"}
        return kind.finding(url=url, problem=network["error"], **words)
    signature = facts.get("signature") or {}
    if signature.get("verified") is False:
        return BAD_SIGNATURE.finding(url=url, problem=signature.get("problem"), evidence=signature.get("evidence"))
    if facts.get("fetched"):
        return FITS.finding(url=url, evidence=item["file"])
    if facts.get("lists_empty") and any(nvcc.get("package") for nvcc in look.usable_nvccs):
        return LISTS_CLEANED.finding(url=url, evidence="/var/lib/apt/lists")
    return NOT_FETCHED.finding(url=url, evidence="/var/lib/apt/lists")
