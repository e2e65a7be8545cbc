#!/usr/bin/env bash
# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Sets up a developer's machine. Each part is instant when there is nothing to do.
#   tools/setup.sh python    .venv with the pinned tools, and build/tree, where ansible finds the collection by name
#   tools/setup.sh core219   .venv-core219: the unit tests' environment with the oldest supported ansible-core
#   tools/setup.sh debian    the Debian packages of requirements/debian.txt
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# The first of the named versions that really runs: a pyenv shim may be on PATH and refuse.
find_python() {
    local version candidate
    for version in "$@"; do
        for candidate in "python$version" "$HOME"/.pyenv/versions/"$version".*/bin/python; do
            if "$candidate" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
                "$candidate" -c 'import sys; print(sys.executable)'
                return
            fi
        done
    done
    # Debian ships ensurepip apart from python3.
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && [ ! -e /usr/bin/pveversion ] && [ -z "${asked_apt:-}" ]; then
        asked_apt=yes
        install_debian python3-venv >&2
        find_python "$@"
        return
    fi
    die "found none of Python $* with its venv module. Install one (Debian: apt-get install python3-venv)."
}

# make_environment FOLDER REQUIREMENTS PYTHON: made anew whenever the pins or the interpreter change.
make_environment() {
    local folder=$1 requirements=$2 python=$3 stamp
    stamp=$folder/$(cat requirements/controller.txt "$requirements" <("$python" -VV) | sha256sum | cut -c1-16).stamp
    [ -e "$stamp" ] && return
    say "making $folder with $("$python" -V) from $requirements"
    rm -rf "$folder"
    "$python" -m venv "$folder"
    "$folder/bin/python" -m pip install -qq --disable-pip-version-check --requirement "$requirements" ||
        die "pip could not install $requirements; its words stand above. Check the network, the proxy and the package index."
    touch "$stamp"
}

# Before anything is installed: on a Proxmox node Debian's lxc would take the place of lxc-pve, and its containers down.
check_machine() {
    if ! grep -qxs 'ID=debian' /etc/os-release; then
        die "the testbed runs on Debian only (this is $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release))."
    elif [ -e /usr/bin/pveversion ] || [ -e /usr/sbin/pct ]; then
        die "this machine is a real Proxmox node: nothing is installed here. Set the testbed up on another Debian machine."
    fi
}

install_debian() {
    # Packages such as openssh-server start a service when installed; the testbed starts its own, elsewhere.
    local policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod 755 $policy
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    say "installing Debian packages: $*"
    DEBIAN_FRONTEND=noninteractive apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

case ${1:-} in
python)
    python=$(find_python 3.13 3.12 3.11)
    make_environment .venv requirements/dev.txt "$python"
    name=build/tree/ansible_collections/proxmox_gpu/training
    mkdir -p "$(dirname $name)"
    ln -sfn ../../../.. $name
    ;;
core219)
    python=$(find_python 3.11 3.12 3.13)
    make_environment .venv-core219 requirements/core219.txt "$python"
    ;;
debian)
    check_machine
    missing=()
    while read -r package; do
        dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
    done < <(sed 's/#.*//' requirements/debian.txt | tr -s '[:space:]' '\n' | sed '/^$/d')
    [ ${#missing[@]} = 0 ] && exit 0
    [ "$(id -u)" = 0 ] || die "the testbed needs these Debian packages; install them as root: apt-get install ${missing[*]}"
    install_debian "${missing[@]}"
    ;;
*)
    die "say what to set up: python, core219 or debian."
    ;;
esac
