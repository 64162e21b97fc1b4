#!/usr/bin/env bash
# Boots a real systemd, PID 1 of its own namespaces, on an overlay of this machine's root, with a real sshd inside.
# usage: boot-guest.sh KEEPER CGROUP NAME SSH_PORT BASE PATH…      (root; packages systemd, dbus and openssh-server)
# KEEPER is the pid whose mount namespace has a tmpfs on BASE: what BASE keeps makes a second boot a reboot.
# BASE/authorized_keys is who may log in as root and ops. Every PATH can be reached by the guest's other users.
set -euo pipefail
umask 022

if [[ $1 != inside ]]; then
  keeper=$1 cgroup=$2
  shift 2
  echo $$ >"$cgroup/cgroup.procs"
  # The guest dies with whoever started it: nothing outlives a killed test run.
  exec nsenter --target "$keeper" --mount \
    setpriv --pdeathsig KILL \
    unshare --mount --uts --ipc --cgroup --pid --fork --kill-child=SIGKILL --propagation private \
    bash "$0" inside "$@"
fi
shift
name=$1 port=$2 base=$3
shift 3
r=$base/root

hostname "$name"
first=yes
[[ -d $base/up ]] && first=
rm -rf "$base/work"
mkdir -p "$base/up" "$base/work" "$r"
mount -t overlay overlay -o "lowerdir=/,upperdir=$base/up,workdir=$base/work" "$r"

# An overlay of / does not see what is mounted below it (a checkout on a volume of its own).
for path in "$@"; do
  mount=$(findmnt --noheadings --output TARGET --target "$path")
  layer=$base/mounts$mount
  if [[ $mount != / ]] && ! mountpoint -q "$r$mount"; then
    rm -rf "$layer/work"
    mkdir -p "$layer/up" "$layer/work" "$r$mount"
    mount -t overlay overlay -o "lowerdir=$mount,upperdir=$layer/up,workdir=$layer/work" "$r$mount"
  fi
done

prepare() {
  echo "$name" >"$r/etc/hostname"
  : >"$r/etc/machine-id"
  rm -rf "$r/var/lib/dbus/machine-id" "$r"/etc/systemd/system/*.wants "$r/var/log/journal"
  mkdir -p "$r/var/log/journal" "$r/etc/systemd/system/multi-user.target.wants" "$r/etc/tmpfiles.d"
  ln -s /lib/systemd/system/ssh.service "$r/etc/systemd/system/multi-user.target.wants/ssh.service"
  ln -sf /lib/systemd/system/multi-user.target "$r/etc/systemd/system/default.target"
  for unit in systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket systemd-udev-trigger.service \
    systemd-timesyncd.service systemd-networkd.service systemd-networkd.socket getty.target console-getty.service \
    systemd-binfmt.service systemd-sysctl.service proc-sys-fs-binfmt_misc.automount dev-hugepages.mount dev-mqueue.mount \
    sys-kernel-debug.mount sys-kernel-tracing.mount systemd-modules-load.service systemd-remount-fs.service ssh.socket \
    proc-sys-kernel-random-boot_id.mount; do # the guest keeps its own boot id to the end of a shutdown
    ln -sf /dev/null "$r/etc/systemd/system/$unit"
  done
  ln -sf /dev/null "$r/etc/tmpfiles.d/tmp.conf" # or the guest empties its view of /tmp
  echo "# none" >"$r/etc/fstab"

  rm -f "$r"/etc/ssh/ssh_host_*
  ssh-keygen -q -t ed25519 -N "" -C "$name" -f "$r/etc/ssh/ssh_host_ed25519_key"
  cat >"$r/etc/ssh/sshd_config" <<CONF
Port $port
ListenAddress 127.0.0.1
PermitRootLogin prohibit-password
PasswordAuthentication no
HostKey /etc/ssh/ssh_host_ed25519_key
UsePAM yes
UseDNS no
Subsystem sftp internal-sftp
MaxSessions 100
MaxStartups 100
CONF

  add_user ops 1500
  add_user sglang 1501
  for home in "$r/root" "$r/home/ops"; do
    mkdir -p "$home/.ssh"
    cp "$base/authorized_keys" "$home/.ssh/authorized_keys"
    chmod 700 "$home/.ssh"
    chmod 600 "$home/.ssh/authorized_keys"
    : >"$home/.bashrc"
  done
  chown -R 1500:1500 "$r/home/ops"
  chown -R 1501:1501 "$r/home/sglang"

  for path in "$@"; do
    path=$(realpath "$path")
    until [[ $path == / ]]; do
      chmod go+x "$r$path"
      path=$(dirname "$path")
    done
  done
}

add_user() {
  mkdir -p "$r/home/$1"
  echo "$1:x:$2:$2::/home/$1:/bin/bash" >>"$r/etc/passwd"
  echo "$1:x:$2:" >>"$r/etc/group"
  echo "$1:*:19000:0:99999:7:::" >>"$r/etc/shadow"
}

if [[ $first ]]; then prepare "$@"; fi
rm -f "$r/run/nologin"

mount -t proc proc "$r/proc"
cat /proc/sys/kernel/random/uuid >"$base/boot_id"
mount --bind "$base/boot_id" "$r/proc/sys/kernel/random/boot_id"
mount -t sysfs sysfs "$r/sys"
mount -o remount,bind,ro "$r/sys"
mount -t cgroup2 cgroup2 "$r/sys/fs/cgroup"
mount -t tmpfs -o mode=755,size=16m tmpfs "$r/dev"
for node in null zero full random urandom tty; do
  : >"$r/dev/$node"
  mount --bind "/dev/$node" "$r/dev/$node"
done
mkdir -p "$r/dev/pts" "$r/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$r/dev/pts"
ln -s pts/ptmx "$r/dev/ptmx"
ln -s /proc/self/fd "$r/dev/fd"
for n in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${n%%:*}" "$r/dev/${n##*:}"; done
mount -t tmpfs -o mode=1777 tmpfs "$r/dev/shm"
mount -t tmpfs -o mode=755 tmpfs "$r/run"

cd "$r"
mkdir -p .old
pivot_root . .old
umount -l /.old
rmdir /.old 2>/dev/null || true
exec env -i container=namespace PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb \
  /lib/systemd/systemd --system --log-target=journal --show-status=0
