# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh disable=SC2034
# Read before each mess, inside of the container. MIRROR is set by the test.
set -e
export DEBIAN_FRONTEND=noninteractive
SITE=/opt/training/lib/python3.11/site-packages
KEYRING=/usr/share/keyrings/cuda-archive-keyring.gpg
REPO="$MIRROR/debian12/x86_64/"

# Register the box's repository as NVIDIA's guide says: the keyring package, with its list turned to the mirror.
install_repository() {
    python3 -c "import sys, urllib.request; urllib.request.urlretrieve(sys.argv[1], '/tmp/keyring.deb')" \
        "${REPO}cuda-keyring_1.1-1_all.deb"
    dpkg -i /tmp/keyring.deb >/dev/null
    sed -i "s#https\?://[^ ]*/compute/cuda/repos#$MIRROR#" /etc/apt/sources.list.d/cuda*.list
    apt-get -qq update
}

# Files that look like a passed-through GPU: fake_gpu DRIVER. diagnose is pointed there by two variables.
fake_gpu() {
    mkdir -p /fake/dev /fake/proc/driver/nvidia
    printf 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  Release Build\n' "$1" \
        >/fake/proc/driver/nvidia/version
    printf 'Character devices:\n195 nvidia\n195 nvidiactl\n511 nvidia-uvm\n\nBlock devices:\n' >/fake/proc/devices
    mknod -m 666 /fake/dev/nvidia0 c 195 0
    mknod -m 666 /fake/dev/nvidiactl c 195 255
    mknod -m 666 /fake/dev/nvidia-uvm c 511 0
    touch "/usr/lib/x86_64-linux-gnu/libcuda.so.$1"
}

# A person's own pip, which knows nothing of the environment's constraint file.
own_pip() {
    PIP_CONFIG_FILE=/dev/null /opt/training/bin/pip --quiet --disable-pip-version-check \
        --cert /etc/ssl/certs/ca-certificates.crt "$@"
}
