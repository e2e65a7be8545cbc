#!/bin/sh
# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Makes the devN nodes of a container. lxc runs it at the start, after it has filled /dev (arguments: name, section,
# hook); the pct stand-in runs it as `device_hook.sh add ROOT` for a device that is added while the container runs.
# Each line read: KIND MAJOR MINOR PATH MODE UID GID DENY_WRITE
if [ "$1" = add ]; then
    root=$2
else
    root=$LXC_ROOTFS_MOUNT
    exec < "${LXC_CONFIG_FILE%/*}/devices" || exit 0
fi
while read -r kind major minor path mode uid gid _; do
    mkdir -p "$root${path%/*}"
    rm -f "$root$path"
    mknod "$root$path" "$kind" "$major" "$minor" && chmod "$mode" "$root$path" && chown "$uid:$gid" "$root$path"
done
