#!/usr/bin/env bash
# What the cluster needs is tried before it is started: where root lacks a capability, its tests are skipped.
set -euo pipefail
two_nodes=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)/two_nodes
"$two_nodes" possible || exit 77
command -v capsh >/dev/null || { echo "needs capsh"; exit 77; }
for capability in cap_net_admin cap_mknod cap_sys_admin; do
  status=0
  said=$(capsh --drop=$capability -- -c "'$two_nodes' possible") || status=$?
  [ $status = 77 ] && [ -n "$said" ] || { echo "FAILED: without $capability: status $status, '$said'"; exit 1; }
done
