# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that a node has of its own: accounts, sudo rules, sshd, host name, homes, pct.

They are written into folders that the node's namespace lays over the machine's /etc and /usr/sbin, so that the machine
itself never gets a Proxmox path, an account or a key.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from testbed import files, namespaces
from testbed.layout import NodeLayout

OVERLAID = (("etc", "/etc"), ("sbin", "/usr/sbin"), ("bin", "/usr/bin"))  # the node's own folder, and over what
# Logins beside root: what each may do with sudo, without a password.
LOGINS = {
    "ansible": (1701, ["/usr/sbin/pct"]),
    "operator": (1702, ["/usr/sbin/pct", "/usr/bin/lxc-attach", "/usr/bin/lxc-info"]),
}
PCT = """\
#!/usr/bin/python3 -IS
# STAND-IN for Proxmox's pct, written by the testbed of proxmox_gpu.training. This is not Proxmox software:
# it imitates the texts, exit codes and faults of the real pct over the real lxc tools.
import sys
sys.path.insert(0, "/run/testbed/code")
from testbed.pct_standin.main import main
sys.exit(main(sys.argv[1:], "{state}"))
"""
PVESH = """\
#!/usr/bin/python3 -IS
# STAND-IN for Proxmox's pvesh, written by the testbed of proxmox_gpu.training. This is not Proxmox software:
# it asks the testbed's stand-in of the Proxmox API, as root@pam.
import sys
sys.path.insert(0, "/run/testbed/code")
from testbed.api_standin.pvesh import main
sys.exit(main(sys.argv[1:], "{state}"))
"""
NVIDIA = """\
#!/usr/bin/python3 -IS
# STAND-IN of a node's NVIDIA driver, written by the testbed of proxmox_gpu.training: {name} for its modules alone.
import sys
sys.path.insert(0, "/run/testbed/code")
from testbed.nvidia_standin import main
sys.exit(main("{name}", sys.argv[1:], "{settings}"))
"""
NVIDIA_COMMANDS = ("modprobe", "modinfo", "nvidia-modprobe")


def write(node: NodeLayout, port: int, authorized_key: str) -> None:
    """Write or refresh all of them. Existing host keys stay."""
    etc, sbin, programs = (_place(node, name, target) for name, target in OVERLAID)
    homes = node.folder / "home"
    for folder in (
        etc / "ssh",
        etc / "lxc",
        etc / "pam.d",
        etc / "pve",
        etc / "sudoers.d",
        sbin,
        programs,
        homes,
        node.lxc,
    ):
        folder.mkdir(parents=True, exist_ok=True)
    for name in ("log/pve/tasks", "root", "work/etc", "work/sbin", "work/bin"):
        (node.folder / name).mkdir(parents=True, exist_ok=True)
    temporary = node.folder / "tmp"
    temporary.mkdir(exist_ok=True)
    temporary.chmod(0o1777)

    files.write(etc / "hostname", f"{node.name}\n")
    files.write(etc / "hosts", f"127.0.0.1 localhost\n127.0.0.1 {node.name}.testbed {node.name}\n")
    files.write(etc / "resolv.conf", Path("/etc/resolv.conf").read_text() if Path("/etc/resolv.conf").exists() else "")
    files.write(etc / "environment", "")
    files.write(etc / "lxc/lxc.conf", f"lxc.lxcpath = {node.lxc_inside}\n")
    files.write(etc / "sudoers", _sudoers(), 0o440)
    files.write(etc / "pam.d/sshd", _pam_sshd())
    _accounts(etc)
    files.write(etc / "ssh/sshd_config", _sshd_config(node, port))
    key = etc / "ssh/ssh_host_ed25519_key"
    if not key.exists():
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"{node.name} of a testbed", "-f", str(key)],
            check=True,
            timeout=30,
            stdin=subprocess.DEVNULL,
        )
    files.write(sbin / "pct", PCT.format(state=node.box.inside), 0o755)
    files.write(programs / "pvesh", PVESH.format(state=node.box.inside), 0o755)
    for name in NVIDIA_COMMANDS:
        files.write(sbin / name, NVIDIA.format(name=name, settings=node.inside / "nvidia.json"), 0o755)
    _home(node.folder / "root", 0, authorized_key)
    for name, (uid, _commands) in LOGINS.items():
        _home(homes / name, uid, authorized_key)


def _place(node: NodeLayout, name: str, target: str) -> Path:
    """Where to write a file of the overlay at ``target``. A mounted overlay does not see what is replaced below it."""
    pid = namespaces.init_pid(node)
    mounts = Path(f"/proc/{pid}/mounts").read_text().splitlines() if pid else []
    mounted = any(line.split()[1:3] == [target, "overlay"] for line in mounts)
    return Path(f"/proc/{pid}/root{target}") if mounted else node.folder / name


def _home(folder: Path, uid: int, authorized_key: str) -> None:
    """A home without start-up files: a .bashrc of the machine would cost each remote command its time."""
    ssh = folder / ".ssh"
    ssh.mkdir(parents=True, exist_ok=True)
    files.write(ssh / "authorized_keys", authorized_key, 0o600)
    files.write(folder / ".hushlogin", "")
    folder.chmod(0o700)
    ssh.chmod(0o700)
    for path in (folder, ssh, ssh / "authorized_keys", folder / ".hushlogin"):
        os.chown(path, uid, uid)


def _accounts(etc: Path) -> None:
    """passwd, group and shadow: the machine's system accounts, and the node's own logins."""
    passwd = [line for line in Path("/etc/passwd").read_text().splitlines() if _is_system(line.split(":")[2])]
    group = [line for line in Path("/etc/group").read_text().splitlines() if _is_system(line.split(":")[2])]
    passwd = [line if not line.startswith("root:") else "root:x:0:0:root:/root:/bin/bash" for line in passwd]
    shadow = [f"{line.split(':')[0]}:*:19000:0:99999:7:::" for line in passwd]
    for name, (uid, _commands) in LOGINS.items():
        passwd.append(f"{name}:x:{uid}:{uid}::/home/{name}:/bin/bash")
        group.append(f"{name}:x:{uid}:")
        shadow.append(f"{name}:*:19000:0:99999:7:::")
    files.write(etc / "passwd", "\n".join(passwd) + "\n")
    files.write(etc / "group", "\n".join(group) + "\n")
    files.write(etc / "shadow", "\n".join(shadow) + "\n", 0o640)
    shadow_group = next((int(line.split(":")[2]) for line in group if line.startswith("shadow:")), 0)
    os.chown(etc / "shadow", 0, shadow_group)


def _is_system(number: str) -> bool:
    return int(number) < 1000 or int(number) == 65534


def _sudoers() -> str:
    """Debian's defaults (a terminal of sudo's own among them), the logins' commands, and what a playbook adds."""
    lines = [
        "Defaults env_reset, use_pty",
        'Defaults secure_path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"',
        "root ALL=(ALL:ALL) ALL",
    ]
    lines += [f"{name} ALL=(root) NOPASSWD: {', '.join(commands)}" for name, (_uid, commands) in LOGINS.items()]
    lines.append("@includedir /etc/sudoers.d")
    return "\n".join(lines) + "\n"


def _pam_sshd() -> str:
    """Debian's stack for sshd without the message of the day (which runs scripts of the machine at each login)."""
    return """\
@include common-auth
account required pam_nologin.so
@include common-account
session required pam_loginuid.so
session optional pam_keyinit.so force revoke
@include common-session
session required pam_limits.so
session required pam_env.so
session required pam_env.so envfile=/etc/default/locale
@include common-password
"""


def _sshd_config(node: NodeLayout, port: int) -> str:
    """OpenSSH's defaults where they matter to clients: MaxSessions 10, MaxStartups 10:30:100."""
    return f"""\
Port {port}
ListenAddress 127.0.0.1
HostKey /etc/ssh/ssh_host_ed25519_key
PidFile /run/sshd.pid
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM yes
PrintMotd no
PrintLastLog no
UseDNS no
AcceptEnv LANG LC_*
Subsystem sftp /usr/lib/openssh/sftp-server
"""
