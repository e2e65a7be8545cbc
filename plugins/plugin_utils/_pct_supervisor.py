# Copyright (c) 2026, the proxmox_gpu.training authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection.

"""The few lines of Perl that run on the node for the time of one command, and the command line that starts them.

Why a program on the node at all: the exit status of lxc-attach or pct exec can't say whether the command or the way to
it failed (both end in 1, 2 or 255), nothing on the node ends the process inside when the link is lost, and a background
child that holds stdout would keep the ssh session open. Why Perl: pct itself is Perl, so each Proxmox node has it, and
without modules it starts in about 3 ms.

What it does: clears the environment; starts the command through lxc-attach or pct; passes stdin through untouched and
relays stdout and stderr; takes the first line of the container's prelude (the start mark) as proof that the command was
reached; when the command has ended, writes a report that begins with a random word (the end mark) which the container
never sees. Only when something is suspicious does it look for the container's state and its place in the cluster.
When the link is lost, or on TERM, it ends the process tree inside the container.
"""

from __future__ import annotations

import base64
import secrets
import shlex
import typing as t

#: Linux allows 128 KiB for one argument, and the node's login shell gets the whole command line as one.
MAX_REMOTE_BYTES = 131071

_PERL = r"""
my ($end, $mark, $id, $method, $stdin, $relay, $locate, $wait, @inner) = split /\0/, $p, -1;
%ENV = (PATH => '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL => 'C.UTF-8');
chdir '/'; umask 022;
my @sudo = $> ? ('sudo', '-n', '--') : ();
my ($started, $lost, $fell, $refused, $text, $boot, $pid_inside) = (0, 0, 0, 0, '', '', 0);
my $auto = $method eq 'auto';
$method = 'lxc-attach' if $auto;
# A handler, not IGNORE: what is ignored stays ignored in the command.
$SIG{PIPE} = sub {};
$SIG{CHLD} = sub {};
$SIG{$_} = sub { $lost = 1 } for qw(HUP INT TERM);

sub slurp { open(my $f, '<', $_[0]) or return ''; local $/; my $c = <$f>; defined $c ? $c : '' }

sub names { opendir(my $d, $_[0]) or return (); grep { !/^\./ } readdir $d }

# Output and status of a short command; never waits longer than 15 s, whatever the command does.
sub ask {
  my @c = @_;
  pipe my $r, my $w;
  my $pid = fork;
  return ('', -1) unless defined $pid;
  if (!$pid) {
    open STDIN, '<', '/dev/null'; open STDOUT, '>&', $w; open STDERR, '>', '/dev/null';
    exec { $c[0] } @c or exit 127;
  }
  close $w;
  my ($b, $until) = ('', time + 15);
  while (1) {
    my $v = ''; vec($v, fileno $r, 1) = 1;
    my $n = select $v, undef, undef, 1;
    if (time > $until) { kill 'KILL', $pid; return ($b, -1) }
    next if $n <= 0;
    my $k = sysread $r, $b, 65536, length $b;
    last if defined $k && !$k;
  }
  waitpid $pid, 0;
  return ($b, $?);
}

sub frozen {
  for my $d ("lxc/$id", "lxc.payload.$id") {
    return 1 if slurp("/sys/fs/cgroup/$d/cgroup.freeze") =~ /^1/;
    return 1 if slurp("/sys/fs/cgroup/freezer/$d/freezer.state") =~ /^FROZEN/;
  }
  return 0;
}

# pct says running for a frozen container and knows no more than lxc-info; it is asked where sudo allows nothing else.
sub state {
  return 'FROZEN' if frozen();
  my $s = '';
  ($s) = ask(@sudo, 'lxc-info', '-n', $id, '-s', '-H') unless @sudo && $method eq 'pct';
  ($s) = ask(@sudo, 'pct', 'status', $id) if $s eq '' && @sudo;
  return uc($s) =~ /([A-Z]+)\s*$/ ? $1 : '';
}

# When the container's first process started (field 22 of its stat line, in clock ticks): changes with each restart.
sub since { $_[0] =~ /.*\) (?:\S+ ){19}(\d+)/ ? $1 : '' }
sub init { my ($i) = ask(@sudo, 'lxc-info', '-n', $id, '-p', '-H'); $i =~ /(\d+)/ ? $1 : '' }
sub boot { my $i = init(); $i eq '' ? '' : since(slurp("/proc/$i/stat")) }

sub enter {
  return (@sudo, 'pct', 'exec', $id, '--', @_) if $method eq 'pct';
  return (@sudo, 'lxc-attach', '-n', $id, '--clear-env', '--', @_);
}

sub put {
  my ($fd, $b) = @_;
  while (length $b) {
    my $n = syswrite $fd, $b;
    if (defined $n) { substr($b, 0, $n) = '' }
    elsif ($! + 0 != 4) { $lost = 1; return }
  }
}

sub report {
  my ($rc, $state, $place) = @_;
  my %r = (rc => $rc, started => $started, method => $method, fell => $fell, state => $state, sudo => scalar @sudo,
    refused => $refused ? 1 : 0);
  $r{init} = init() if $locate;
  if ($place) {
    $r{host} = slurp('/proc/sys/kernel/hostname');
    my $v = slurp('/etc/pve/.vmlist');
    ($v) = ask(@sudo, 'cat', '/etc/pve/.vmlist') if $v eq '' && @sudo && $method ne 'pct';
    # Of a cluster's list only the id's own entry; {} when the list has none.
    $r{vmlist} = $v =~ /"$id"\s*:\s*(\{[^{}]*\})/ ? $1 : $v eq '' ? '' : '{}';
    # Not glob, which loads a module with each start.
    $r{conf} = join ' ', grep { -e } map { my $n = $_; map { "/etc/pve/nodes/$n/$_/$id.conf" } 'lxc', 'qemu-server' }
      names('/etc/pve/nodes');
    $r{text} = substr $text, 0, 4000;
  }
  put(\*STDERR, join '', "$end\n", (map { "$_=" . unpack('H*', $r{$_}) . "\n" } sort keys %r), "end\n");
  exit 0;
}

# Ends the command's process tree from inside (its pid, from the start mark, is not reaped yet), then the way in.
sub finish {
  my ($pid) = @_;
  my $kill = 't() { for k in $(cat /proc/$1/task/*/children 2>/dev/null); do t $k; done; l="$l $1"; }; t $1; '
    . 'kill -TERM $l; n=0; while [ $n -lt 20 ] && kill -0 $1; do n=$((n+1)); sleep 0.1; done; kill -KILL $l';
  ask(enter('/bin/sh', '-c', $kill, 'sh', $pid_inside)) if $started;
  my @all = ($pid);
  for my $q (@all) { push @all, split ' ', slurp("/proc/$q/task/$q/children") }
  kill 'TERM', @all; select undef, undef, undef, 0.1; kill 'KILL', @all;
}

AGAIN:
report(-1, 'FROZEN', 1) if frozen();
pipe my $or, my $ow; pipe my $er, my $ew;
my $pid = fork;
if (!defined $pid) { $text = "fork: $!"; report(-1, '', 1) }
if (!$pid) {
  open STDIN, '<', '/dev/null' if $stdin eq 'null';
  open STDOUT, '>&', $ow if $relay;
  open STDERR, '>&', $ew;
  my @c = enter(@inner);
  exec { $c[0] } @c or do { syswrite STDERR, "$c[0]: $!\n"; exit 127 };
}
close $ow; close $ew;
my ($o, $e) = ($relay ? fileno $or : -1, fileno $er);
my ($gone, $status, $begin, $look) = (0, 0, time, time + 3);
# Our own outputs count as readable only when their reader is gone: the link is lost. sshd closes stdout when the ssh
# client dies and both when the connection ends. A socket, unlike a pipe, may hold input as well: then stderr alone.
my @link = ((grep { -p STDOUT } 1), (grep { -p STDERR || -S STDERR } 2));
while (1) {
  if (!$gone && waitpid($pid, 1) == $pid) { $gone = 1; $status = $? }
  if ($lost) { finish($pid) if !$gone; exit 0 }
  last if $gone && $o < 0 && $e < 0;
  if (!$started && !$gone && time >= $look) {
    my $s = state();
    if ($s eq 'FROZEN' || time - $begin >= $wait) { finish($pid); report(-1, $s eq 'FROZEN' ? $s : 'SILENT', 1) }
    $look = time + 3;
  }
  my $v = ''; vec($v, $_, 1) = 1 for grep { $_ >= 0 } $o, $e, @link;
  # Not without end, for a child's end that arrives between the check above and the call: likely once it closed both.
  my $n = select $v, undef, undef, $gone ? 0 : $o < 0 && $e < 0 ? 0.02 : 1;
  last if $n == 0 && $gone;
  next if $n <= 0;
  if (grep { vec($v, $_, 1) } @link) { $lost = 1; next }
  if ($o >= 0 && vec($v, $o, 1)) {
    my $k = sysread $or, my $b, 131072;
    if ($k) { put(\*STDOUT, $b) } elsif (defined $k) { $o = -1 }
  }
  if ($e >= 0 && vec($v, $e, 1)) {
    my $k = sysread $er, my $b, 131072;
    if (!$k) { $e = -1 if defined $k }
    elsif ($started) { put(\*STDERR, $b) }
    else {
      $text .= $b;
      if ($text =~ s/^(.*?)\Q$mark\E (\d+) ([^\n]*)\n//s) {
        ($started, $pid_inside, $boot) = (1, $2, since($3));
        my $said = $1;
        put(\*STDERR, $text);
        $text = $said;
        open STDIN, '<', '/dev/null';
      }
    }
  }
}
my $rc = $status & 127 ? 128 + ($status & 127) : $status >> 8;
if ($started) {
  report($rc, '', 0) if $rc < 128;
  my $s = state();
  if ($s eq 'RUNNING' && $boot ne '') { my $now = boot(); $s = 'RESTARTED' if $now ne '' && $now ne $boot }
  report($rc, $s, $s ne 'RUNNING');
}
if (@sudo) {
  my @c = enter('true');
  (undef, $refused) = ask('sudo', '-n', '-l', @c[2 .. $#c]);
  if ($refused && $auto && !$fell) { $fell = 1; $method = 'pct'; $text = ''; goto AGAIN }
}
report($rc, state(), 1);
"""

# The decoder uses what every Perl has built in; base64 alphabets mean the same to every login shell when single-quoted.
_BOOT = (
    "perl -e 'my($p,$c)=(pop,pop);for($p,$c){tr#A-Za-z0-9+/##cd;tr#A-Za-z0-9+/# -_#;"
    "$_=join q(),map{unpack u=>chr(32+length()*3/4).$_}m/(.{1,60})/g}eval$c;die$@if$@'"
)

# Ends a supervisor by its end mark: the one process whose command line holds it apart from this one.
_STOP = (
    "for(glob q(/proc/[0-9]*)){my($n)=m/([0-9]+)$/;next if$n==$$;open my$f,q(<),qq($_/cmdline)or next;"
    "my$l=<$f>;kill TERM=>$n if defined$l&&$l=~/^perl\\0/&&index($l,$ARGV[0])>=0}"
)


def _squeeze(perl: str) -> str:
    """Drop indentation and whole-line comments: the text travels with each command."""
    lines = (line.strip() for line in perl.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("#"))


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii").rstrip("=")


_CODE = _encode(_squeeze(_PERL).encode("ascii"))


class Request(t.NamedTuple):
    """One command for a container, as the supervisor needs it."""

    vmid: int
    method: str  # auto, lxc-attach or pct
    argv: tuple[bytes, ...]  # runs inside; its first output must be the start mark
    mark: str  # start mark: seen by the container
    end: str  # end mark: never seen by the container
    stdin: str = "pass"  # pass, or null: nothing to read
    relay: bool = True  # False: stdout goes straight to the link (bulk data, no background children)
    locate: bool = False  # report the container's first process
    wait: int = 60  # seconds until the start mark has to be there


def new_marks() -> tuple[str, str]:
    """Return (start mark, end mark): words that nobody can guess."""
    return f"pct_exec-{secrets.token_hex(8)}", f"pct_exec-end-{secrets.token_hex(16)}"


def remote_command(request: Request) -> str:
    """Return the command line for the node's login shell: POSIX, csh or fish, its words need no other quoting."""
    fields = (
        request.end,
        request.mark,
        str(request.vmid),
        request.method,
        request.stdin,
        "1" if request.relay else "0",
        "1" if request.locate else "0",
        str(request.wait),
    )
    packed = b"\0".join([*(field.encode("ascii") for field in fields), *request.argv])
    return f"{_BOOT} {request.end} {_CODE} {_encode(packed)}"


def stop_command(end: str) -> str:
    """Return the command line that makes the supervisor with this end mark end its command."""
    return f"perl -e {shlex.quote(_STOP)} {shlex.quote(end)}"
