#!/bin/sh
# What a person does after the installation, run by a unit of the booted root; says what it saw in
# /var/said and ends the machine.
exec >/var/said 2>&1
trap 'systemctl poweroff --force --force' EXIT
set -eu

wait_for() {
  for _ in $(seq 1 300); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    sleep 0.2
  done
  echo "not within a minute: $*"
  journalctl --no-pager --unit "sandbox-*"
  return 1
}

systemctl enable --now sandbox-node sandbox-gateway sandbox-ssh
wait_for test -s /var/lib/sandbox-gateway/gateway/admin.token
SANDBOX_GATEWAY_TOKEN=$(cat /var/lib/sandbox-gateway/gateway/admin.token)
export SANDBOX_GATEWAY_TOKEN
wait_for sandbox list
sandbox image import /opt/image.tar demo
box=$(sandbox create demo --memory 256)
systemctl restart sandbox-node
systemctl restart sandbox-gateway
wait_for sandbox list
sandbox exec "$box" -- echo "it outlives both"
wait_for sandbox ssh-config "$box"
echo "ssh: with an entry"
sandbox rm "$box"
pid=$(systemctl show --property MainPID --value sandbox-gateway)
grep -E "^(CapBnd|NoNewPrivs|Seccomp):" "/proc/$pid/status"
systemctl stop sandbox-ssh sandbox-gateway sandbox-node
systemctl show --property Result sandbox-ssh sandbox-gateway sandbox-node
echo "all done"
