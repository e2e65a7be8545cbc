# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this doc fragment is **PRIVATE** to the collection.

from __future__ import annotations


class ModuleDocFragment:
    """The options of ansible-core's ssh plugin, which reads them under our plugin's name, with the words for a node."""

    DOCUMENTATION = r"""
options:
  host:
    description: Name or address of the node.
    type: string
    default: inventory_hostname
    vars:
      - name: inventory_hostname
      - name: ansible_host
      - name: ansible_ssh_host
  port:
    description: Port of the node's ssh server.
    type: int
    vars:
      - name: ansible_port
      - name: ansible_ssh_port
    env:
      - name: ANSIBLE_REMOTE_PORT
    ini:
      - section: defaults
        key: remote_port
    keyword:
      - name: port
  remote_user:
    description:
      - The login on the node. Any other than root has to be allowed C(lxc-attach) or C(pct) through sudo without a
        password.
      - Modules see the container's root as their user, whatever this says.
    type: string
    vars:
      - name: ansible_user
      - name: ansible_ssh_user
    env:
      - name: ANSIBLE_REMOTE_USER
    ini:
      - section: defaults
        key: remote_user
    cli:
      - name: user
    keyword:
      - name: remote_user
  password:
    description: Password of the node's login, where no key is used.
    type: string
    vars:
      - name: ansible_password
      - name: ansible_ssh_pass
      - name: ansible_ssh_password
  password_mechanism:
    description: How the ssh client is given the password.
    type: string
    default: ssh_askpass
    choices: [ssh_askpass, sshpass, disable]
    vars:
      - name: ansible_ssh_password_mechanism
    env:
      - name: ANSIBLE_SSH_PASSWORD_MECHANISM
    ini:
      - section: ssh_connection
        key: password_mechanism
  sshpass_prompt:
    description: The password prompt to wait for, where it is not the usual one.
    type: string
    default: ''
    vars:
      - name: ansible_sshpass_prompt
    env:
      - name: ANSIBLE_SSHPASS_PROMPT
    ini:
      - section: ssh_connection
        key: sshpass_prompt
  private_key_file:
    description: Path of the private key for the node's login.
    type: string
    vars:
      - name: ansible_private_key_file
      - name: ansible_ssh_private_key_file
    env:
      - name: ANSIBLE_PRIVATE_KEY_FILE
    ini:
      - section: defaults
        key: private_key_file
    cli:
      - name: private_key_file
        option: '--private-key'
  private_key:
    description: The private key itself, in PEM format. Needs ansible-core's SSH_AGENT setting.
    type: string
    vars:
      - name: ansible_private_key
      - name: ansible_ssh_private_key
    env:
      - name: ANSIBLE_PRIVATE_KEY
  private_key_passphrase:
    description: Passphrase of O(private_key).
    type: string
    vars:
      - name: ansible_private_key_passphrase
      - name: ansible_ssh_private_key_passphrase
    env:
      - name: ANSIBLE_PRIVATE_KEY_PASSPHRASE
  pkcs11_provider:
    description: PKCS11 provider library for a smart card.
    type: string
    default: ''
    vars:
      - name: ansible_ssh_pkcs11_provider
    env:
      - name: ANSIBLE_PKCS11_PROVIDER
    ini:
      - section: ssh_connection
        key: pkcs11_provider
  host_key_checking:
    description: Whether the node's host key is checked.
    type: boolean
    default: true
    vars:
      - name: ansible_host_key_checking
      - name: ansible_ssh_host_key_checking
    env:
      - name: ANSIBLE_HOST_KEY_CHECKING
      - name: ANSIBLE_SSH_HOST_KEY_CHECKING
    ini:
      - section: defaults
        key: host_key_checking
      - section: ssh_connection
        key: host_key_checking
  ssh_args:
    description:
      - Arguments for the ssh client.
      - Unlike the ssh plugin's, the default does not compress, notices a dead link after a minute, and prefers the
        cipher that processors with AES instructions are fastest at.
    type: string
    default: >-
      -o ControlMaster=auto -o ControlPersist=60s -o ServerAliveInterval=15 -o ServerAliveCountMax=4
      -o Ciphers=^aes128-gcm@openssh.com
    vars:
      - name: ansible_ssh_args
    env:
      - name: ANSIBLE_SSH_ARGS
    ini:
      - section: ssh_connection
        key: ssh_args
  ssh_common_args:
    description: More arguments for the ssh client, for example C(-J jumphost) or a known_hosts file.
    type: string
    default: ''
    vars:
      - name: ansible_ssh_common_args
    env:
      - name: ANSIBLE_SSH_COMMON_ARGS
    ini:
      - section: ssh_connection
        key: ssh_common_args
    cli:
      - name: ssh_common_args
  ssh_extra_args:
    description: Still more arguments for the ssh client.
    type: string
    default: ''
    vars:
      - name: ansible_ssh_extra_args
    env:
      - name: ANSIBLE_SSH_EXTRA_ARGS
    ini:
      - section: ssh_connection
        key: ssh_extra_args
    cli:
      - name: ssh_extra_args
  ssh_executable:
    description: The ssh client.
    type: string
    default: ssh
    vars:
      - name: ansible_ssh_executable
    env:
      - name: ANSIBLE_SSH_EXECUTABLE
    ini:
      - section: ssh_connection
        key: ssh_executable
  reconnection_retries:
    description:
      - How often a failed connection to the node is tried again.
      - The ssh client alone decides that a connection failed; a command that ends with 255 inside the container is
        never run again.
    type: integer
    default: 0
    vars:
      - name: ansible_ssh_retries
    env:
      - name: ANSIBLE_SSH_RETRIES
    ini:
      - section: connection
        key: retries
      - section: ssh_connection
        key: retries
  pipelining:
    description:
      - Whether modules are sent through stdin, without a file in the container. On by default, unlike elsewhere.
    type: boolean
    default: true
    vars:
      - name: ansible_pipelining
      - name: ansible_ssh_pipelining
    env:
      - name: ANSIBLE_PIPELINING
      - name: ANSIBLE_SSH_PIPELINING
    ini:
      - section: defaults
        key: pipelining
      - section: connection
        key: pipelining
      - section: ssh_connection
        key: pipelining
  control_path:
    description:
      - Where the control socket is. When this is set, this plugin leaves the shared connections to the ssh client.
      - C(%(directory\)s) stands for O(control_path_dir).
    type: string
    vars:
      - name: ansible_control_path
    env:
      - name: ANSIBLE_SSH_CONTROL_PATH
    ini:
      - section: ssh_connection
        key: control_path
  control_path_dir:
    description: The folder of the control sockets.
    type: string
    default: ~/.ansible/cp
    vars:
      - name: ansible_control_path_dir
    env:
      - name: ANSIBLE_SSH_CONTROL_PATH_DIR
    ini:
      - section: ssh_connection
        key: control_path_dir
  use_tty:
    description: Part of the ssh plugin's options; a terminal is never asked for.
    type: bool
    default: false
    vars:
      - name: ansible_ssh_use_tty
  timeout:
    description: Seconds for the connection to the node, and for a privilege escalation prompt.
    type: integer
    default: 10
    vars:
      - name: ansible_ssh_timeout
    env:
      - name: ANSIBLE_TIMEOUT
      - name: ANSIBLE_SSH_TIMEOUT
    ini:
      - section: defaults
        key: timeout
      - section: ssh_connection
        key: timeout
    cli:
      - name: timeout
  verbosity:
    description: Verbosity of the ssh client.
    type: int
    default: 0
    vars:
      - name: ansible_ssh_verbosity
    env:
      - name: ANSIBLE_SSH_VERBOSITY
    ini:
      - section: ssh_connection
        key: verbosity
"""
