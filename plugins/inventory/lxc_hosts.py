# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: lxc_hosts
short_description: The LXC containers of a Proxmox cluster, and how each gets its GPU
version_added: "0.1.0"
author:
  - proxmox_gpu.training authors (@proxmox-gpu)
description:
  - Lists a cluster's containers with the variables that P(proxmox_gpu.training.pct_exec#connection) needs - the id, and
    the address of the node that each is on - so that a play reaches them without a line written by hand.
  - Asks once for the whole cluster, and once for each container whose configuration is wanted, in parallel.
  - What the token or user may not see is said by a warning that names the privilege. Containers of an offline node
    stay listed.
  - The file's name must end in C(lxc_hosts.yml) or C(lxc_hosts.yaml).
notes:
  - Names, tags and whatever else comes from the cluster are data; they are never rendered as templates.
  - Of a container that runs, the configuration is the one that it runs with; what waits for its next start is in
    C(pve_pending), with O(read_pending).
options:
  plugin:
    description: The name of this plugin.
    type: str
    required: true
    choices: [proxmox_gpu.training.lxc_hosts]
  host_name:
    description:
      - What a container is called in the inventory.
    type: str
    default: name
    choices:
      name: Its name, or its id when it has none. Containers that share a name are called NAME-ID.
      id: Its id.
  node_addresses:
    description:
      - Address of each node for ssh, where it is not the one of the cluster's status. Either a name or address, or a
        dictionary with C(host) and C(port).
    type: dict
    default: {}
  follow_moved:
    description:
      - Let a play that finds its container on another node go on there.
    type: bool
    default: true
  read_configs:
    description:
      - Read configurations, which tell how a GPU is handed in. Without them there are no groups by GPU.
    type: bool
    default: true
  read_pending:
    description:
      - Also ask running containers what waits for their next start (one more request each).
    type: bool
    default: false
  want_config:
    description:
      - Set C(pve_config), the whole configuration, with raw lines as a list of pairs under C(lxc).
    type: bool
    default: false
  templates:
    description:
      - List container templates as well.
    type: bool
    default: false
  filters:
    description:
      - Conditions that a container must meet, all of them, as Jinja expressions on its C(pve_) variables.
      - Configurations are read for those alone that meet the conditions that need none.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - proxmox_gpu.training._pve_api
  - constructed
  - inventory_cache
"""

EXAMPLES = r"""
# inventories/cluster/lxc_hosts.yml
---
plugin: proxmox_gpu.training.lxc_hosts
api_host: pve1.example.org
api_user: reader@pve
api_token_id: inventory
api_token_secret: "{{ lookup('ansible.builtin.env', 'PVE_TOKEN_SECRET') }}"
api_ca_file: /etc/ssl/pve-root-ca.pem

# Only what trains, and only what runs.
---
plugin: proxmox_gpu.training.lxc_hosts
api_host: pve1.example.org
api_user: reader@pve!inventory
api_token_secret: "{{ lookup('ansible.builtin.env', 'PVE_TOKEN_SECRET') }}"
filters:
  - "'training' in pve_tags"
  - pve_status == 'running'
keyed_groups:
  - key: pve_gpu.gpus | length
    prefix: gpus
compose:
  fast_path_require_proof: pve_gpu.how != 'none'

# Without an API token: the node's own pvesh, over ssh.
---
plugin: proxmox_gpu.training.lxc_hosts
api_backend: ssh
api_host: pve1.example.org
api_user: root
"""

import typing as t

from ansible.errors import AnsibleError, AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable

from ansible_collections.proxmox_gpu.training.plugins.module_utils._pve_access import OPTIONS, access_from
from ansible_collections.proxmox_gpu.training.plugins.module_utils._pve_api import Api
from ansible_collections.proxmox_gpu.training.plugins.module_utils._pve_errors import ApiError
from ansible_collections.proxmox_gpu.training.plugins.plugin_utils import _lxc_inventory, _pct_preload
from ansible_collections.proxmox_gpu.training.plugins.plugin_utils._lxc_collect import Cluster, Row, collect


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    NAME = "proxmox_gpu.training.lxc_hosts"

    def verify_file(self, path: str) -> bool:
        return super().verify_file(path) and path.endswith(("lxc_hosts.yml", "lxc_hosts.yaml"))

    def parse(self, inventory: t.Any, loader: t.Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        cluster = self._cached(path, cache)
        for sentence in cluster["warnings"]:
            self.display.warning(sentence)
        self._populate(cluster)
        _pct_preload.preload()

    # What the cluster says

    def _cached(self, path: str, cache: bool) -> Cluster:
        self.load_cache_plugin()
        key = self.get_cache_key(path)
        use = self.get_option("cache")
        if use and cache:
            try:
                return self._cache[key]
            except KeyError:
                pass
        cluster = self._ask()
        if use:
            self._cache[key] = cluster
        return cluster

    def _ask(self) -> Cluster:
        options = {name: self._rendered(self.get_option(name)) for name in OPTIONS}
        if options["api_backend"] != "https":
            options["api_parallel"] = min(options["api_parallel"], 4)  # each is a Perl of 140 MB on the node
        try:
            api = Api(access_from(options))
            cluster = collect(api, self._wanted, self.get_option("read_pending"))
        except ApiError as error:
            raise AnsibleParserError(str(error)) from None
        self.display.vvv(f"lxc_hosts: {api.requests} requests for {len(cluster['containers'])} containers")
        return cluster

    def _rendered(self, value: t.Any) -> t.Any:
        return self.templar.template(value) if isinstance(value, str) else value

    # Which of it is wanted

    def _wanted(self, row: Row, nodes: dict[str, Row]) -> bool:
        """Before any configuration is read: is this one's worth a request?"""
        early = [condition for condition in self.get_option("filters") if not _lxc_inventory.needs_config(condition)]
        variables = _lxc_inventory.base_variables(row, self._addresses(nodes))
        return self.get_option("read_configs") and self._passes(variables, early)

    def _passes(self, variables: Row, conditions: list[str]) -> bool:
        if variables["pve_template"] and not self.get_option("templates"):
            return False
        for condition in conditions:
            try:
                if not self._compose(condition, variables):
                    return False
            except Exception as error:
                if self.get_option("strict"):
                    raise AnsibleParserError(
                        f"The filter {condition!r} cannot be judged for container {variables['pve_vmid']}: {error}"
                    ) from None
                return False
        return True

    def _addresses(self, nodes: dict[str, Row]) -> dict[str, Row]:
        return _lxc_inventory.node_addresses(nodes, self.get_option("node_addresses") or {})

    # Hosts and groups

    def _populate(self, cluster: Cluster) -> None:
        addresses = self._addresses(cluster["nodes"])
        chosen = []
        for row in cluster["containers"]:
            variables = _lxc_inventory.base_variables(row, addresses)
            variables |= _lxc_inventory.config_variables(row, self.get_option("want_config"))
            if self._passes(variables, self.get_option("filters")):
                chosen.append((row, variables))
        names, warnings = _lxc_inventory.host_names([row for row, _variables in chosen], self.get_option("host_name"))
        for sentence in warnings:
            self.display.warning(sentence)
        self.inventory.add_group("gpu")
        for row, variables in chosen:
            if self.get_option("follow_moved"):
                variables["pct_node_addresses"] = addresses
            self._add_host(names[int(row["vmid"])], variables)

    def _add_host(self, name: str, variables: Row) -> None:
        host = self.inventory.add_host(name)
        for key, value in variables.items():
            self.inventory.set_variable(host, key, value)
        for group in _lxc_inventory.group_names(variables):
            self.inventory.add_child(self.inventory.add_group(self._sanitize_group_name(group)), host)
        strict = self.get_option("strict")
        try:
            self._set_composite_vars(self.get_option("compose"), variables, host, strict=strict)
            self._add_host_to_composed_groups(self.get_option("groups"), variables, host, strict=strict)
            self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, host, strict=strict)
        except AnsibleError as error:
            raise AnsibleParserError(str(error)) from None
