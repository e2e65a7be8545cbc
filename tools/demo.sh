#!/usr/bin/env bash
# Copyright (c) 2026, the proxmox_gpu.training authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The main job, for real: container 200 of a node in a box becomes a training host. Run it again: 0 changed.
# Arguments go to ansible-playbook (tools/demo.sh --check --diff).
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH" ANSIBLE_CONFIG="$PWD/ansible.cfg"

python -m testbed up
inventory=$(python -m testbed status --json | python -c 'import json, sys; print(json.load(sys.stdin)["inventory"])')
started=$SECONDS
ansible-playbook -i "$inventory" playbooks/provision.yml --limit ct200 --extra-vars @tools/demo.yml "$@"
printf 'demo: the playbook took %s s; another run changes nothing.\n' $((SECONDS - started))
printf 'demo: look inside with .venv/bin/python -m testbed exec 200; make testbed-down removes the box.\n'
