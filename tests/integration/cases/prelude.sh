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

# A web server or proxy on 127.0.0.1 that answers every request with one status: answer STATUS PORT [PEM].
answer() {
    cat > /run/answer.py <<'END'
import http.server, ssl, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(int(sys.argv[1]))
        self.send_header("Content-Length", "0")
        self.end_headers()
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[2])), Answer)
if len(sys.argv) > 3:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[3])
    server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
END
    setsid python3 /run/answer.py "$@" </dev/null >/dev/null 2>&1 &
    for _try in 1 2 3 4 5 6 7 8 9 10; do
        python3 -c "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 1)" "$2" 2>/dev/null &&
            return
        sleep 0.3
    done
    return 1
}

# Let the entry name another place: entry_at URL.
entry_at() {
    sed -i "s#^URIs: .*/compute/cuda/repos#URIs: $1/compute/cuda/repos#" /etc/apt/sources.list.d/cuda*.sources
}
