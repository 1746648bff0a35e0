#!/usr/bin/env bash
# mnlaunch in networks that this machine does not have: IPv6 alone, a name server that does not answer, and another user on
# all ports at which the nodes would meet. Each in a namespace of its own, in which two steps' tasks count as nodes n1, n2.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
unshare -m -n -u true 2>/dev/null || { echo 'cannot make a network here'; exit 77; }

# network ADDRESS ADDRESS SCRIPT: runs SCRIPT with $mnlaunch as $0 where n1 and n2 have these addresses on one card, and no
# other name is known.
network() {
  printf '%s n1\n%s n2\n' "$1" "$2" >hosts
  unshare -m -n -u bash -euc '
    ip link set lo up
    ip link add eth7 type veth peer name eth8
    for card in eth8 eth7; do ip link set $card up; done
    for address in $(cut -d" " -f1 hosts); do
      case $address in *:*) ip addr add "$address/64" dev eth7 nodad ;; *) ip addr add "$address/24" dev eth7 ;; esac
    done
    mount --bind hosts /etc/hosts
    node() {
      number=$1
      shift
      unshare -u sh -c "hostname n$((number + 1)); exec \"\$@\"" - env SLURM_JOB_ID=7$$ SLURM_STEP_ID=0 SLURM_PROCID=$number \
        SLURM_NODEID=$number SLURM_LOCALID=0 SLURM_GTIDS=$number SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NUM_NODES=2 \
        SLURM_STEP_NODELIST="n[1-2]" MN_LAUNCH_TIMEOUT=20 timeout 60 "$mnlaunch" --skip machines "$@"
    }
    step() {
      node 0 "$@" & first=$!
      node 1 "$@" & second=$!
      wait $first && wait $second
    }
    '"$3" >out 2>err || fail "$1: status $?: $(cat out err)"
}
export mnlaunch

# shellcheck disable=SC2016
for check in warn off; do
  network 2001:db8::7 2001:db8::8 'ip addr del 127.0.0.1/8 dev lo
    step --check '$check' sh -c "echo \$RANK \$MASTER_ADDR \$GLOO_SOCKET_IFNAME \$NCCL_SOCKET_IFNAME"'
  [ "$(sort out)" = $'0 2001:db8::7 eth7 =eth7\n1 2001:db8::7 eth7 =eth7' ] || fail "IPv6, --check $check: $(cat out err)"
done

# Nobody answers a question about the name of this host.
# shellcheck disable=SC2016
network 10.9.0.7 10.9.0.8 '
  hostname nameless
  echo "nameserver 10.9.0.1" >resolv.conf
  mount --bind resolv.conf "$(readlink -f /etc/resolv.conf)"
  echo "hosts: files dns" >nsswitch.conf
  mount --bind nsswitch.conf /etc/nsswitch.conf
  ip neigh add 10.9.0.1 lladdr 02:00:00:00:00:01 dev eth7
  start=$SECONDS
  "$mnlaunch" true
  [ $((SECONDS - start)) -lt 8 ] || { echo "$((SECONDS - start)) s"; exit 1; }'

# Another program has all ports that the user allows, on both nodes: rank 0 alone says so, and all end alike.
# shellcheck disable=SC2016
network 10.9.0.7 10.9.0.8 '
  python3 -c "import socket, time
held = [socket.create_server((\"\", port)) for port in range(40000, 40010)]
print(len(held), flush=True)
time.sleep(100)" >held &
  other=$!
  until [ -s held ]; do sleep 0.1; done
  begin=$SECONDS
  node 0 --ports 40000-40009 true & first=$!
  node 1 --ports 40000-40009 true & second=$!
  seen=
  for process in $first $second; do wait $process || seen="$seen $?"; done
  kill $other
  [ "$seen" = " 1 1" ] && [ $((SECONDS - begin)) -lt 10 ] || { echo "statuses$seen, $((SECONDS - begin)) s"; exit 1; }'
one_line '^mnlaunch: rank 0 on n1: none of the TCP ports 40000-40009 is free on this host, .* give others with --ports'
rm held

# shellcheck disable=SC2016
network 10.9.0.7 10.9.0.8 '
  ulimit -n 20000
  python3 -c "import os, socket, time
os.setuid(65534)
held = [socket.create_server((\"\", port)) for port in range(20000, 32000)]
print(len(held), flush=True)
time.sleep(100)" >held &
  other=$!
  until [ -s held ]; do sleep 0.1; done
  step sh -c "echo \$RANK \$MASTER_PORT"
  kill $other'
[[ $(sort out | tr '\n' ' ') =~ ^0\ ([0-9]+)\ 1\ ([0-9]+)\ $ ]] && [ "${BASH_REMATCH[1]}" = "${BASH_REMATCH[2]}" ] &&
  [ "${BASH_REMATCH[1]}" -lt 20000 ] || fail "another user on all ports: $(cat out err)"
