#!/usr/bin/env bash
# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The main job, for real: container 200 of a node in a box becomes a training host. Run it again: 0 changed.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH" ANSIBLE_CONFIG="$PWD/ansible.cfg"

python -m testbed up
inventory=$(python -m testbed inventory)
started=$SECONDS
ansible-playbook -i "$inventory" playbooks/provision.yml --limit 200 --extra-vars @tools/demo.yml "$@"
echo "demo: the playbook took $((SECONDS - started)) s. Look inside:  ansible -i $inventory 200 -m shell -a 'nvidia-smi; nvcc --version'"
echo "demo: another run changes nothing; make testbed-down removes the box."
