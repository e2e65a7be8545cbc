# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Turn what pip or uv printed into one sentence that names the cause and the way out. Pure.

pip ends in "No matching distribution found" for an index that cannot be reached, a proxy that refuses and a version
that does not exist alike; the reason is in its --log file alone ("Could not fetch URL ..."), so pass that as well.
Texts of pip 22 to 25 and uv 0.13. The tests hold samples, provoked for real.
"""

from __future__ import annotations

from ._output_rules import Problem as PipProblem
from ._output_rules import Rule as _Rule
from ._output_rules import first, squeeze

__all__ = ["PipProblem", "explain"]

_INDEXES = "torch_environment_index_url, torch_environment_extra_index_urls and torch_environment_find_links"
_NOT_MOVED = (
    "but {have} is installed and nothing that is installed is moved for another package; choose another version of "
    "{name}, or name the package with the version that it may move to (torch_environment_packages)"
)
_AUTHORITY = (
    "add the authority that signed the certificate of the index, or of an intercepting proxy, to "
    "bootstrap_ca_certificates"
)
_OTHER_PYTHON = (
    "and the environment has another one; choose another version of the package, or another interpreter "
    "(torch_environment_python)"
)
_FETCH = r"Could not fetch URL (?P<uri>\S+?): "
_UV_FETCH = r"error: Failed to fetch: (?P<uri>\S+)\n(?:  cause: [^\n]*\n)*?"

_RULES: tuple[_Rule, ...] = (
    _Rule(
        "no_space",
        False,
        r"No space left on device",
        "the container's disk is full; grow it on the node with 'pct resize VMID rootfs +SIZE', or delete something",
    ),
    _Rule(
        "conflict",
        False,
        r"The conflict is caused by:\n(?:[^\n]*\n)*?"
        r" +(?P<name>\S+) (?P<version>\S+) depends on (?P<need>[^\n]+)\n"
        r"(?:[^\n]*\n)*? +The user requested \(constraint\) (?P<have>\S+)",
        "{name} {version} needs {need}, " + _NOT_MOVED,
    ),
    _Rule(
        "conflict",
        False,
        r"[Bb]ecause (?P<name>[\w.-]+)\S* depends on (?P<need>\S+) and (?P<have>[\w.-]+==\S+), we can conclude",
        "{name} needs {need}, " + _NOT_MOVED,
    ),
    _Rule(
        "conflict",
        False,
        r"The conflict is caused by:\n +The user requested (?P<name>[^\n(]+)\n"
        r"(?:[^\n]*\n)*? +The user requested \(constraint\) (?P<have>\S+)",
        "{name} is wanted, but {have} is installed and nothing that is installed is moved without being named",
    ),
    _Rule(
        "conflict",
        False,
        r"The conflict is caused by:\n +(?P<one>[^\n]+)\n +(?P<other>[^\n]+)",
        "the wished packages contradict each other ({one}; {other}); correct torch_environment_packages",
    ),
    _Rule(
        "ca_bundle",
        False,
        r"Could not find a suitable TLS CA certificate bundle, invalid path: (?P<path>\S+)",
        "there is no CA bundle {path} in the container (torch_environment_ca_bundle)",
    ),
    _Rule(
        "tls",
        False,
        _FETCH + r"There was a problem confirming the ssl certificate: [^\n]*?"
        r"(?P<why>certificate verify failed(?:: [^(\n']+)?|TLS/SSL connection has been closed)",
        "TLS to {uri} failed ({why}); " + _AUTHORITY,
    ),
    _Rule(
        "tls",
        False,
        _UV_FETCH + r"  cause: invalid peer certificate: (?P<why>[^\n]+)",
        "TLS to {uri} failed ({why}); " + _AUTHORITY,
    ),
    _Rule(
        "proxy",
        False,
        r"ProxyError\('Cannot connect to proxy\.', [^\n]*?(?P<why>Tunnel connection failed: [^'\"\n]+)"
        r"|cause: tunnel error: (?P<why2>unsuccessful)",
        "the proxy refused the request ({why}); check torch_environment_proxy",
    ),
    _Rule(
        "proxy",
        True,
        r"ProxyError\('Cannot connect to proxy\.', [^\n]*?\[Errno -?\d+\] (?P<why>[^'\"\n]+)"
        r"|cause: tunnel error: failed to create underlying connection\n(?:[^\n]*\n)?  cause: (?P<why2>[^\n(]+)",
        "the proxy cannot be reached ({why}); check torch_environment_proxy",
    ),
    _Rule(
        "unreachable",
        True,
        _FETCH + r"connection error: (?:[^\n]*\[Errno -?\d+\] (?P<why>[^'\"\n]+)|"
        r"[^\n]*?Caused by (?P<why2>\w+))",
        "{uri} cannot be reached ({why}); check the container's network, " + _INDEXES,
    ),
    _Rule(
        "unreachable",
        True,
        _UV_FETCH
        + r"  cause: (?:failed to lookup address information: )?(?P<why>[^\n:]+?)(?: \(os error \d+\))?\n(?!  cause)",
        "{uri} cannot be reached ({why}); check the container's network, " + _INDEXES,
    ),
    _Rule(
        "denied",
        False,
        _FETCH + r"(?P<why>40[13] Client Error: \w+)|An index \((?P<uri2>\S+)\) returned a (?P<why2>40[13] \w+) error",
        "the index refused {uri} ({why}); check its address and login in " + _INDEXES,
    ),
    _Rule(
        "server_error",
        True,
        _FETCH + r"[^\n]*(?P<why>too many 5\d\d error responses|5\d\d Server Error: \w+)",
        "the index at {uri} does not work ({why}); retry later",
    ),
    _Rule(
        "checksum",
        True,
        r"THESE PACKAGES DO NOT MATCH THE HASHES|Hash mismatch for `(?P<name>[^`]+)`",
        "a downloaded package is not the one that the index describes {name}: a damaged download or cache; retry later",
    ),
    _Rule(
        "python_too_old",
        False,
        r"require a different python version: [^\n]*\b(?P<version>[\w.+]+) Requires-Python (?P<need>[^;\n]+)\n"
        r"(?:[^\n]*\n)*?ERROR: No matching distribution found for (?P<name>\S+=(?P=version))",
        "{name} needs Python {need}, " + _OTHER_PYTHON,
    ),
    _Rule(
        "python_too_old",
        False,
        r"Python version \([^)]*\) does not satisfy Python(?P<need>\S+) and (?P<name>\S+) depends on",
        "{name} needs Python {need}, " + _OTHER_PYTHON,
    ),
    _Rule(
        "cpu_build_only",
        False,
        r"that satisfies the requirement torch!=(?P<version>\S+)\+cpu,\S+ "
        r"\(from versions:[^)\n]*[ ,](?P=version)\+cpu\b",
        "the indexes have torch {version} as a CPU build only, and a CUDA build is wanted; name an index that has one "
        "(torch_environment_index_url), or set torch_environment_cpu_only for a host without a GPU",
    ),
    _Rule(
        "no_such_package",
        False,
        r"that satisfies the requirement (?P<name>[\w.\[\]-]+)(?:![^,\s]*\+cpu,)?(?P<name2>\S*)(?: \(from [^)]+\))? "
        r"\(from versions: none\)"
        r"|[Bb]ecause \S+ was not found in the package registry and you require (?P<name3>[^,\s]+)",
        "no index offers {name}; check its name, " + _INDEXES,
    ),
    _Rule(
        "no_such_version",
        False,
        r"that satisfies the requirement (?P<name>[\w.\[\]-]+)(?:![^,\s]*\+cpu,)?(?P<name2>\S*) "
        r"\((?:from [^)]+\) \()?from versions:"
        r"[^)\n]*?(?<=[:,] )(?P<newest>(?:[^,)\n]+, ){0,2}[^,)\n]+)\)",
        "no index offers {name} for this Python and machine; the newest that they have are {newest}",
    ),
    _Rule(
        "no_such_version",
        False,
        r"[Bb]ecause there is no version of \S+ and you require (?P<name>[^,\s]+)",
        "no index offers {name} for this Python and machine",
    ),
    _Rule(
        "invalid",
        False,
        r"Invalid requirement: '(?P<name>[^']+)'|Failed to parse: `(?P<name2>[^`]+)`",
        "'{name}' is no requirement; correct torch_environment_torch or torch_environment_packages",
    ),
    _Rule(
        "build_failed",
        False,
        r"metadata-generation-failed(?:[^\n]*\n)+?╰─> (?P<name>(?!See )\S+)|Failed to build '?(?P<name2>[\w.-]+)"
        r"|Failed building wheel for (?P<name3>\S+)",
        "{name} has no wheel for this Python and machine, and building it failed; choose a version that has one",
    ),
    _Rule(
        "build_failed",
        False,
        r"metadata-generation-failed",
        "a package has no wheel for this Python and machine, and building it failed",
    ),
)


def explain(output: str, log: str = "") -> PipProblem | None:
    """What explains a failed pip or uv, by its output (stdout and stderr) and pip's log; None if they are mute."""
    text = f"{output}\n{log}"
    problem = first(_RULES, text, {})
    if problem:
        return problem
    lines = [line for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith(("error: ", "fatal: "))]
    if not errors:
        return None
    told = lines[-1] if errors[0].startswith("ERROR: Exception") else errors[0]  # a traceback ends in what happened
    return PipProblem("other", f"the installation failed: {squeeze(told)}", False, squeeze(told))
