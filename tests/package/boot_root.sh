#!/bin/sh
# boot_root.sh ROOT: systemd of the clean root as PID 1 of namespaces of its own (run this by
# `unshare --pid --fork --mount --cgroup ...`), with the host's cgroup v1 hierarchies.
set -eu
root=$1
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
umount -R "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
for controller in cpu cpuacct memory pids devices freezer cpuset; do
  mkdir "$root/sys/fs/cgroup/$controller"
  mount -t cgroup -o $controller cgroup "$root/sys/fs/cgroup/$controller"
done
mkdir "$root/sys/fs/cgroup/systemd"
mount -t cgroup -o name=systemd cgroup "$root/sys/fs/cgroup/systemd"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=0755 tmpfs "$root/run"
cd "$root"
pivot_root . mnt
umount -l /mnt
exec env -i container=lxc PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd \
  --log-target=console --show-status=no systemd.unified_cgroup_hierarchy=0
