#!/bin/sh
# first_steps.sh NODE GATEWAY: runs both as the units' ExecStart= says (the node with the unit's
# capabilities, the gateway as its user with none) and makes one sandbox. Runs in the clean root.
set -eu
node_words=$1
gateway_words=$2
capabilities=$3

wait_for() {
  for _ in $(seq 1 600); do
    if "$@" >/tmp/wait.log 2>&1; then return 0; fi
    sleep 0.1
  done
  echo "not within a minute: $*" >&2
  cat /tmp/wait.log /tmp/node.log /tmp/gateway.log >&2
  return 1
}

mkdir -m 0711 /run/sandbox-gateway
# shellcheck disable=SC2086
setpriv --bounding-set "$capabilities" $node_words >/tmp/node.log 2>&1 &
node=$!
wait_for test -S /run/sandbox-gateway/node.sock
# shellcheck disable=SC2086
setpriv --reuid sandbox-gateway --regid sandbox-gateway --clear-groups --inh-caps=-all \
  --bounding-set=-all --no-new-privs $gateway_words >/tmp/gateway.log 2>&1 &
gateway=$!
wait_for test -s /var/lib/sandbox-gateway/gateway/admin.token
SANDBOX_GATEWAY_TOKEN=$(cat /var/lib/sandbox-gateway/gateway/admin.token)
export SANDBOX_GATEWAY_TOKEN
wait_for sandbox list
sandbox image import /tmp/image.tar demo >&2
sandbox run --memory 256 demo -- sh -c 'echo "it works as $(id -u)"'
sandbox list --quiet
kill -TERM "$gateway"
wait "$gateway" && echo "gateway ended with 0"
kill -TERM "$node"
wait "$node" && echo "node ended with 0"
