#!/bin/sh
# enter_root.sh ROOT COMMAND...: the command with ROOT as the root of a mount namespace (run this by
# `unshare --mount`): in a chroot the kernel makes no user namespaces, which sandboxes need.
set -eu
root=$1
shift
mount --bind "$root" "$root"
for shared in proc sys dev; do
  mount --rbind "/$shared" "$root/$shared"
done
mount -t tmpfs -o mode=0755 tmpfs "$root/run"
cd "$root"
pivot_root . mnt
umount -l /mnt
exec "$@"
