# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Turn what apt printed into one sentence that names the cause and the way out.

Pure: text in, a value out. apt ends in the same line ("is not signed", "failed to download") for very different causes,
and often prints two causes at once, so the rules are ordered from the most to the least telling; the first one wins.
The texts are those of apt 2.4 to 3.0 in the C locale (run apt with ``LC_ALL=C.UTF-8``); from apt 3.0 on, ``sqv`` checks
the signatures and OpenSSL the certificates, with words of their own. The tests hold samples, provoked for real.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from ._output_rules import Problem as AptProblem
from ._output_rules import Rule as _Rule
from ._output_rules import first, squeeze

__all__ = ["AptProblem", "Context", "explain"]


@dataclass(frozen=True)
class Context:
    """What the caller knows: the proxy it set (if any), and the names of its variables, for the sentences to name."""

    proxy: str = ""
    mirror_variable: str = "the source files below /etc/apt"
    proxy_variable: str = "the proxy settings below /etc/apt/apt.conf.d"


# "Err:2 URI suite InRelease", the reason on the next line; or "E: Failed to fetch URI  reason".
_FAILED = r"(?:Err:\d+ (?P<uri>\S+)[^\n]*\n +|E: Failed to fetch (?P<uri2>\S+) +)"
_REASON_ENDS = r"(?= \[IP:|\n|  Could not handshake)"

_RULES: tuple[_Rule, ...] = (
    _Rule(
        "locked",
        True,
        r"Could not get lock (?P<lock>\S+?)\.? It is held by process (?P<pid>\d+)(?P<name> \([^)]*\))?",
        "apt is locked: process {pid} {name} holds {lock}; wait until it has finished, or stop it, and run again",
    ),
    _Rule(
        "locked",
        True,
        r"E: Unable to (?:acquire the dpkg frontend lock|lock (?:the administration )?directory) \(?(?P<lock>[^\s),]+)",
        "apt is locked: another process holds {lock}; wait until it has finished, or stop it, and run again",
    ),
    _Rule(
        "locked",
        True,
        r"dpkg: error: dpkg (?P<lock>\S+) lock was locked by another process with pid (?P<pid>\d+)",
        "apt is locked: process {pid} holds dpkg's {lock} lock; wait until it has finished, or stop it, and run again",
    ),
    _Rule(
        "interrupted",
        False,
        r"E: dpkg was interrupted, you must manually run",
        "an earlier installation was interrupted; run 'dpkg --configure -a' in the container",
    ),
    _Rule(
        "no_space",
        False,
        r"No space left on device|You don't have enough free space in ",
        "the container's disk is full; free some space or grow its root file system, and run again",
    ),
    _Rule(
        "conflict",
        False,
        r"E: Conflicting values set for option (?P<option>\S+) regarding source (?P<uri>\S+) \S*: "
        r"(?P<one>\S*) !=(?P<other>[^\n]*)",
        "two entries name {uri}, one with {option} '{one}' and one with '{other}', so apt reads no source at all; "
        "remove one of them",
    ),
    _Rule(
        "malformed",
        False,
        r"E: Malformed \S+ (?P<line>\d+) in (?:\S+ file|source list) (?P<file>\S+)|"
        r"E: Type '[^']*' is not known on \S+ (?P<line2>\d+) in source list (?P<file2>\S+)",
        "apt reads no source at all, because entry {line} of {file} is malformed; correct or remove it",
    ),
    _Rule(
        "sha1_key",
        False,
        r"Signing key on (?P<key>[0-9A-F]{8,40}) is not bound[^\n]*"
        r"because: (?P<what>\S+) is not considered secure since (?P<date>\d{4}-\d\d-\d\d)",
        "this apt refuses the signing key {key}: its own signature uses {what}, not accepted since {date}; use the "
        "repository made for this distribution's release (cuda_repository_distribution), never an insecure override",
    ),
    _Rule(
        "missing_keyring",
        False,
        r'Failed to parse keyring "(?P<file>[^"]+)"',
        "apt cannot read the keyring {file} that the entry's Signed-By names; install the keyring again",
    ),
    _Rule(
        "key_expired",
        False,
        r"EXPKEYSIG (?P<key>[0-9A-F]{8,40})",
        "the repository's signing key {key} has expired; install the repository's current keyring",
    ),
    _Rule(
        "missing_key",
        False,
        r"(?:NO_PUBKEY|Missing key) (?P<key>[0-9A-F]{8,40})",
        "the repository is signed by the key {key}, which the entry's keyring does not hold (or that file is missing "
        "or unreadable); install the keyring of this very repository",
    ),
    _Rule(
        "bad_signature",
        False,
        r"Err:\d+ (?P<uri>\S+)[^\n]*\n[^\n]*(?P<why>BADSIG [0-9A-F]+|REVKEYSIG [0-9A-F]+|Message has been manipulated)",
        "the signature of {uri} is wrong ({why}): its index was changed on the way or by the mirror; check {mirror}",
    ),
    _Rule(
        "proxy",
        False,
        r"(?P<why>Invalid response from proxy: HTTP/\S+ \d+ [\w ]*?)(?:  |\n)|"
        r"(?P<why2>407 +Proxy Authentication Required)",
        "the proxy {proxy_host} refused the request ({why}); check {proxy}",
    ),
    _Rule(
        "tls",
        False,
        _FAILED + r"(?P<why>(?:Certificate verification failed|Could not handshake|SSL connection failed|"
        r"Could not load certificates from|No system certificates available)[^\n]*?)" + _REASON_ENDS,
        "TLS to {uri} failed ({why}): install ca-certificates and the authority that signed the certificate of the "
        "server, or of an intercepting proxy (bootstrap_ca_certificates)",
    ),
    _Rule(
        "login_page",
        False,
        _FAILED + r"Clearsigned file isn't valid, got '",
        "{uri} is no repository index but some other page, such as a network's login page; check {mirror} and {proxy}",
    ),
    _Rule(
        "upstream_publishing",
        True,
        _FAILED + r"(?P<why>File has unexpected size|Hash Sum mismatch)",
        "the index and the files of {uri} do not match ({why}): the repository is being published right now, or a "
        "cache on the way is stale; retry later",
    ),
    _Rule(
        "upstream_publishing",
        True,
        r"E: Problem with MergeList (?P<file>\S+)",
        "the repository's package list {file} is malformed, as happens while it is being published; retry later",
    ),
    _Rule(
        "no_repository",
        False,
        r"Err:\d+ (?P<uri>\S+)[^\n]*\n  404 [^\n]*\n(?:[^\n]*\n)*?"
        r"E: The repository '[^']*' does not have a Release file",
        "there is no repository at {uri} (404); check {mirror}, the distribution and the architecture",
    ),
    _Rule(
        "upstream_publishing",
        True,
        r"E: Failed to fetch (?P<uri>\S+)  404 ",
        "the repository lists {uri}, but it is not there (404): it is being published right now; retry later",
    ),
    _Rule(
        "denied",
        False,
        r"E: Failed to fetch (?P<uri>\S+)  (?P<why>40[13]  [A-Z]\w+)",
        "the server refused {uri} ({why}); check {mirror} and {proxy}",
    ),
    _Rule(
        "server_error",
        True,
        r"E: Failed to fetch (?P<uri>\S+)  (?P<why>5\d\d  [A-Za-z ]*\w)",
        "the server of {uri} failed ({why}); retry later",
    ),
    _Rule(
        "clock",
        False,
        r"E: Release file for (?P<uri>\S+) is not valid yet \(invalid for another (?P<span>[^)]*)\)",
        "the index of {uri} is dated {span} in the future: the clock is wrong; set the node's clock",
    ),
    _Rule(
        "release_expired",
        False,
        r"E: Release file for (?P<uri>\S+) is expired \(invalid since (?P<span>[^)]*)\)",
        "the index of {uri} expired {span} ago, so the mirror is stale; check {mirror}",
    ),
    _Rule(
        "label_changed",
        False,
        r"E: Repository '(?P<uri>\S+)[^']*' changed its '(?P<what>[^']*)' value "
        r"from '(?P<old>[^']*)' to '(?P<new>[^']*)'",
        "the repository {uri} changed its {what} from '{old}' to '{new}'; check {mirror}, and if that is right run "
        "'apt-get update --allow-releaseinfo-change' in the container",
    ),
    _Rule(
        "unsigned",
        False,
        r"E: The repository '(?P<uri>\S+)  Release' is not signed",
        "the repository {uri} carries no signature at all; check {mirror}",
    ),
    _Rule(
        "unreachable",
        True,
        _FAILED
        + r"(?P<why>Could not connect to (?P<host>[^\s:]+)[^\n]*?|Unable to connect to (?P<host2>[^\s:]+)[^\n]*?|"
        r"(?:Could not resolve|Temporary failure resolving) '(?P<host3>[^']*)'|"
        r"Connection (?:failed|timed out|reset by peer)|[^\n]*Network is unreachable)" + _REASON_ENDS,
        "{uri} cannot be reached ({why}); check the container's network, {mirror} and {proxy}",
    ),
    _Rule(
        "no_such_package",
        False,
        r"E: (?:Unable to locate package (?P<name>\S+)|Package '(?P<name2>[^']+)' has no installation candidate)",
        "no registered repository offers the package {name}; check {mirror}",
    ),
    _Rule(
        "no_such_version",
        False,
        r"E: Version '(?P<version>[^']*)' for '(?P<name>[^']*)' was not found",
        "no registered repository offers version {version} of the package {name}; check {mirror}",
    ),
    _Rule(
        "package_script_failed",
        False,
        r"Errors were encountered while processing:\n (?P<name>\S+)",
        "the installation script of the package {name} failed; see what it printed, then run 'dpkg --configure -a'",
    ),
)

_PROXY_UNREACHABLE = _Rule("proxy", True, "", "the proxy {proxy_host} cannot be reached ({why}); check {proxy}")


def explain(output: str, context: Context | None = None) -> AptProblem | None:
    """The one problem that explains a failed apt-get (stdout and stderr together); None if apt reported none."""
    known = context or Context()
    proxy = urlsplit(known.proxy if "//" in known.proxy else "//" + known.proxy)

    def blame_the_proxy(rule: _Rule, words: Mapping[str, str]) -> _Rule:
        refused_by = words["host"].lower()
        return _PROXY_UNREACHABLE if rule.kind == "unreachable" and refused_by == (proxy.hostname or "-") else rule

    words = {
        "mirror": known.mirror_variable,
        "proxy": known.proxy_variable,
        "proxy_host": proxy.netloc.rsplit("@", 1)[-1],  # never the login
    }
    problem = first(_RULES, output, words, blame_the_proxy)
    if problem:
        return problem
    errors = [line for line in output.splitlines() if line.startswith("E: ")]
    return AptProblem("other", f"apt failed: {squeeze(errors[0][3:])}", False, errors[0]) if errors else None
