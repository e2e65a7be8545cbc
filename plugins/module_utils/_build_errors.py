# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection.

"""Why the build of an extension failed: one cause, one sentence, out of thousands of lines of compiler output.

Each rule holds what tools really print (the texts were provoked with pip 23 and 26, torch 2.13 and 2.14, nvcc 13.0,
gcc 12 and are kept as test fixtures). The first rule that matches wins, so a rule for a cause stands before the rules
for what follows from it: a full disk makes compilers say many things.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t


@dataclasses.dataclass(frozen=True)
class Build:
    """What is known about the build, for its sentence. ``memory_limit``: bytes, None when the container has no
    limit."""

    what: str
    jobs: int = 1
    memory_limit: int | None = None
    tmpdir: str = "/var/tmp"
    cuda_home: str = "/usr/local/cuda"
    python: str = "python3"
    torch: str = ""
    torch_cuda: str | None = None
    series: str = "X-Y"


@dataclasses.dataclass(frozen=True)
class Cause:
    """``id`` is a stable word for programs, ``sentence`` is for people, ``line`` is the line of the log that says
    it."""

    id: str
    sentence: str
    line: str


_Rule = tuple[str, str, t.Callable[["Build", "re.Match[str]"], str]]

_MATH = "set math_headers for this extension, or cuda_toolkit_math_libraries: true"
HEADERS = (
    (
        r"Python\.h|\S*pyconfig\.h",
        "the Debian package python3-dev (the headers of the Python that the environment was made with)",
    ),
    (
        r"cusparse\S*",
        "libcusparse-dev-{series}: " + _MATH,
    ),
    (r"cublas\S*", "libcublas-dev-{series}: " + _MATH),
    (
        r"cusolver\S*",
        "libcusolver-dev-{series}: " + _MATH,
    ),
    (r"curand\S*", "libcurand-dev-{series}: add libcurand-dev to cuda_toolkit_extra_packages"),
    (r"cufft\S*", "libcufft-dev-{series}: add libcufft-dev to cuda_toolkit_extra_packages"),
    (r"nvrtc\.h", "cuda-nvrtc-dev-{series}: add cuda-nvrtc-dev to cuda_toolkit_extra_packages"),
    (r"nvtx3/\S*|nvToolsExt\.h", "cuda-nvtx-{series}: add cuda-nvtx to cuda_toolkit_extra_packages"),
    (r"cuda_profiler_api\.h", "cuda-profiler-api-{series}: add cuda-profiler-api to cuda_toolkit_extra_packages"),
    (r"cudnn\S*", "cuDNN's development package, which is not part of the toolkit"),
    (r"crt/\S*", "cuda-crt-{series} (role cuda_toolkit installs it)"),
    (r"(cub|thrust|cuda/std|nv)/\S*", "cuda-cccl-{series} (role cuda_toolkit installs it)"),
    (r"cuda\S*|driver_types\.h|vector_types\.h", "cuda-cudart-dev-{series} (role cuda_toolkit installs it)"),
)
"""Header -> the package that brings it, established from the owners of the headers that real builds open."""


def _gib(size: int | None) -> str:
    return "no limit of its own" if size is None else f"a limit of {size / 2**30:.1f} GiB"


def _memory(build: Build, _match: re.Match[str] | None = None) -> str:
    jobs = f"{build.jobs} compiler process{'es' if build.jobs > 1 else ''} at once"
    fewer = "set cuda_extensions_jobs: 1, or give" if build.jobs > 1 else "give"
    return (
        f"the build was killed for lack of memory ({jobs}, container with {_gib(build.memory_limit)});"
        f" {fewer} the container more memory"
    )


def _bare_metal(build: Build, _match: re.Match[str]) -> str:
    if build.torch and not build.torch_cuda:
        return _cpu_torch(build)
    return (
        f"its setup found no CUDA compiler (it looked for bin/nvcc below CUDA_HOME={build.cuda_home}); run the role"
        " cuda_toolkit"
    )


def _cpu_torch(build: Build) -> str:
    return (
        f"the torch in {build.python} ({build.torch}) is built for the CPU only, and such a torch finds no CUDA"
        " compiler"
        " even when there is one; install a CUDA build of torch (torch_environment_cpu_only: false)"
    )


def _mismatch(build: Build, match: re.Match[str]) -> str:
    nvcc, torch = match["a1"] or match["b1"], match["a2"] or match["b2"]
    return (
        f"nvcc in {build.cuda_home} is of CUDA {nvcc} and torch was built for CUDA {torch}: their major versions"
        " must be"
        " equal; run the role cuda_toolkit, which takes the toolkit of torch's own CUDA"
    )


def _header(build: Build, match: re.Match[str]) -> str:
    header = match["header"]
    for pattern, package in HEADERS:
        if re.fullmatch(pattern, header):
            return f"the header {header} is missing; it comes with {package.format(series=build.series)}"
    return (
        f"the header {header} is missing and no toolkit package is known to bring it; see the log for who includes it"
    )


def _undefined(build: Build, match: re.Match[str]) -> str:
    return (
        f"{match['file'].rsplit('/', 1)[-1]} does not load into torch {build.torch or ''}".rstrip()
        + f" (undefined symbol {match['symbol']}): it was built against another torch release or another C++ ABI"
        " and must"
        " be built again"
    )


def _library(build: Build, match: re.Match[str]) -> str:
    library = match["library"]
    if re.match(r"lib(c10|torch)", library):
        return (
            f"the compiled part needs {library}, which torch {build.torch} does not have: it was built against another"
            " torch (a CUDA build) and must be built again for this one"
        )
    if library.startswith("libcudart"):
        return (
            f"the compiled part needs {library}, but torch {build.torch} brings CUDA"
            f" {build.torch_cuda or 'none'}: it was"
            " built for another CUDA and must be built again"
        )
    return f"the compiled part needs the library {library}, which is not installed"


_NVCC_MISMATCH = (
    r"detected CUDA version \((?P<a1>[\d.]+)\) mismatches the version that was used to compile\s*"
    r"PyTorch \((?P<a2>[\d.]+)\)"
    r"|detected CUDA version \(%s\) mismatches.*?'(?P<b1>[\d.]+)', '(?P<b2>[\d.]+)'"
)

RULES: tuple[_Rule, ...] = (
    (
        "no_space",
        r"No space left on device",
        lambda build, match: (
            f"the disk is full (temporary files go to {build.tmpdir}); a build needs a few GiB there: free space or set"
            " cuda_extensions_tmpdir to a larger disk"
        ),
    ),
    (
        "memory",
        r"Killed signal terminated program|died due to signal 9|signal 9 \(Kill|^\s*Killed\s*$"
        r"|FAILED: \[code=137\]|std::bad_alloc"
        r"|Cannot allocate memory|virtual memory exhausted|MemoryError",
        _memory,
    ),
    (
        "no_torch",
        r"ModuleNotFoundError: No module named 'torch'",
        lambda build, match: (
            f"there is no torch in the environment that builds ({build.python}); install torch there first (role"
            " torch_environment), and build without isolation"
        ),
    ),
    (
        "no_build_tool",
        r"(?:ModuleNotFoundError: No module named|BackendUnavailable: Cannot import) '(?P<tool>setuptools|wheel"
        r"|packaging|ninja|pkg_resources)[\w.]*'",
        lambda build, match: (
            f"the build tool {match['tool']} is missing from the environment that builds ({build.python}):"
            " run the role torch_environment (pkg_resources left with setuptools 82: install an older setuptools)"
        ),
    ),
    ("no_nvcc", r"name 'bare_metal_version' is not defined", _bare_metal),
    (
        "no_nvcc",
        r"No such file or directory: '(?P<nvcc>[^']*nvcc)'|CUDA_HOME environment variable is not set"
        r"|(?:nvcc|/bin/nvcc): (?:not found|No such file or directory)",
        _bare_metal,
    ),
    ("cuda_mismatch", _NVCC_MISMATCH, _mismatch),
    (
        "glibc_clash",
        r"exception specification is incompatible with that of previous function \"(?P<function>\w+)",
        lambda build, match: (
            f"the headers of the toolkit in {build.cuda_home} and this container's C library declare"
            f" {match['function']}"
            " differently: CUDA before 13.0 does not compile with glibc 2.41 or newer, CUDA before 13.2 not with"
            " 2.42 or"
            " newer; take a newer torch and toolkit or an older distribution (another gcc does not help)"
        ),
    ),
    (
        "gcc_too_new",
        r"unsupported GNU version! gcc versions later than (?P<newest>\d+) are not supported"
        r"|installed version of \S+ \((?P<have>[\d.]+)\) is greater than the maximum required version",
        lambda build, match: (
            f"the C++ compiler is too new for the toolkit in {build.cuda_home}"
            + (f", which takes gcc up to {match['newest']}" if match["newest"] else f" ({match['have']})")
            + "; install an older g++ and make it the default, or take a newer CUDA"
        ),
    ),
    (
        "no_gxx",
        r"installed version of \S+ \(0\.0\.0\) is less than|command '\S*(?:g\+\+|gcc|c\+\+)' failed: No such file"
        r"|(?:g\+\+|gcc|c\+\+): (?:not found|No such file)|No such file or directory: '(?:\S*g\+\+|\S*gcc|c\+\+)'"
        r"|Failed to (?:find|preprocess) (?:C\+\+|host) compiler|no acceptable C compiler",
        lambda build, match: "there is no C++ compiler (g++); run the role cuda_toolkit, which installs it",
    ),
    (
        "no_ninja",
        r"Ninja is required to load C\+\+ extensions|No such file or directory: 'ninja'|ninja: not found",
        lambda build, match: "ninja is missing; run the role cuda_toolkit, which installs it",
    ),
    (
        "cxx_standard",
        r"#error:? *(?P<text>C\+\+(?P<standard>\d+) or later compatible compiler is required[^\n.]*)"
        r"|You need C\+\+(?P<standard2>\d+) to compile",
        lambda build, match: (
            f"torch {build.torch} needs C++{match['standard'] or match['standard2']} and the setup of this"
            " version asks the"
            " compiler for an older standard; take a newer version of the extension, or a description with the repair"
            " for it"
        ),
    ),
    (
        "header_missing",
        r"(?:fatal error: |cannot open source file \")(?P<header>[\w./+-]+)(?:: No such file|\")",
        _header,
    ),
    (
        "no_sources",
        r"'(?P<file>[^']+)', needed by '[^']+', missing and no known rule to make it",
        lambda build, match: (
            f"its source archive lacks {match['file'].rsplit('/', 1)[-1]}: this version cannot be built from its sdist;"
            " choose another version"
        ),
    ),
    (
        "gpu_target_unknown",
        r"Unsupported gpu architecture '(?P<target>\w+)'|Unknown CUDA arch \((?P<arch>[^)]*)\)",
        lambda build, match: (
            f"the nvcc in {build.cuda_home} does not know the GPU target {match['target'] or match['arch']} (too"
            " new for"
            " it, or removed from it); change cuda_extensions_gpu_targets or the toolkit"
        ),
    ),
    (
        "no_gpu_target",
        r"_get_cuda_arch_flags[\s\S]{0,400}IndexError: list index out of range",
        lambda build, match: (
            "no GPU target was given and there is no GPU here to take it from; set cuda_extensions_gpu_targets"
        ),
    ),
    (
        "library_missing",
        r"cannot find -l(?P<library>[\w.+-]+)",
        lambda build, match: (
            f"the linker finds no lib{match['library']}.so"
            + (f"; it comes with cuda-cudart-dev-{build.series}" if match["library"] == "cudart" else "")
        ),
    ),
    (
        "wheel_download",
        r"<?urlop[e]n error (?P<why>[^\n>]*)>?",
        lambda build, match: (
            f"its setup tried to download a prebuilt wheel and has no network ({match['why'].strip()}); its description"
            " needs the variable that forces a build from source"
        ),
    ),
    (
        "checksum",
        r"THESE PACKAGES DO NOT MATCH THE HASHES",
        lambda build, match: "the downloaded file does not have the expected checksum; the index or a proxy changed it",
    ),
    (
        "version_absent",
        r"Could not find a version that satisfies the requirement (?P<wish>\S+) \(from versions: (?P<versions>[^)]*)\)",
        lambda build, match: (
            f"the package indexes have no source archive for {match['wish']} (they have"
            f" {_newest(match['versions'])}); check the version and the index variables of torch_environment"
        ),
    ),
    (
        "index_unreachable",
        r"(?:Failed to establish a new connection|Name or service not known|Temporary failure in name resolution"
        r"|ProxyError|Connection refused|CERTIFICATE_VERIFY_FAILED|ReadTimeoutError|ConnectTimeoutError)[^\n]*",
        lambda build, match: (
            f"the package index cannot be reached ({match[0][:120]}); check the index, proxy and CA variables"
        ),
    ),
    ("undefined_symbol", r"(?P<file>\S+\.so): undefined symbol: (?P<symbol>\w+)", _undefined),
    (
        "library_missing",
        r"ImportError: (?P<library>lib\S+): cannot open shared object file",
        _library,
    ),
)


def classify(log: str, build: Build, starved: bool = False) -> Cause:
    """The cause in the output of a failed build or import. Unknown output gives id ``unknown`` and its most telling
    line. ``starved``: the kernel says that it ended a process for lack of memory, whatever the output makes of it."""
    if starved:
        return Cause("memory", f"{build.what}: {_memory(build)}", "")
    for id_, pattern, sentence in RULES:
        match = re.search(pattern, log, re.MULTILINE)
        if match:
            return Cause(id_, f"{build.what}: {sentence(build, match)}", _line_of(log, match.start()))
    line = _most_telling(log)
    return Cause("unknown", f"{build.what}: the build stopped with: {line[:300]}", line)


def _newest(versions: str) -> str:
    listed = [version.strip() for version in versions.split(",") if version.strip() not in ("", "none")]
    return ", ".join(listed[-5:]) or "none of any version"


def _line_of(log: str, position: int) -> str:
    end = log.find("\n", position)
    return log[log.rfind("\n", 0, position) + 1 : end if end >= 0 else len(log)].strip()[:500]


def _most_telling(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    noise = re.compile(r"subprocess-exited-with-error|exit code|This error originates|metadata-generation-failed")
    for pattern in (r"\berror: (?!subprocess|metadata)", r"^[A-Za-z.]*(?:Error|Exception): ", r"^ERROR: "):
        found = [line for line in lines if re.search(pattern, line) and not noise.search(line)]
        if found:
            return found[0]
    return lines[-1] if lines else "no output at all"
