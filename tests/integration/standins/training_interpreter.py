#!/usr/bin/python3
# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A STAND-IN for a training interpreter on a machine with an H200, where there is none.

A proof is answered with what /srv/proof.json holds (an answer that a real H200 gave); anything else by the real
interpreter beside it (python-real), with one GPU claimed.
"""

import json
import os
import subprocess
import sys

GPU = {"index": 0, "name": "NVIDIA H200", "capability": "9.0", "memory_bytes": 1}
request = sys.stdin.read()
descriptor = int(sys.argv[sys.argv.index("--answer-fd") + 1])
if json.loads(request).get("action") == "proof":
    with open("/srv/proof.json") as stream:
        answer = json.load(stream)
else:
    read, write = os.pipe()
    words = [str(write) if word == str(descriptor) else word for word in sys.argv[1:]]
    archive = int(words[1].rpartition("/")[2])
    with subprocess.Popen([f"{sys.argv[0]}-real", *words], stdin=subprocess.PIPE, pass_fds=(write, archive)) as real:
        real.communicate(request.encode())
    os.close(write)
    with os.fdopen(read) as stream:
        answer = json.load(stream)
    answer["gpu"] = {"count": 1, "devices": [GPU], "visible": "0", "cuda": "13.0"}
answer["uid"] = os.getuid()
os.write(descriptor, json.dumps(answer).encode())
