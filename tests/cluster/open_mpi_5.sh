#!/usr/bin/env bash
# mnlaunch under mpiexec of Open MPI 5 on two nodes, which it reaches through ssh. Its PMIx is another than the system's:
# that of the wheel that cmake/setup --python installs, or the one in MN_OPEN_MPI_5.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
prefix=${MN_OPEN_MPI_5:-$build/torch-env}
[[ $("$prefix/bin/mpiexec" --version 2>/dev/null) == *'(Open MPI) 5.'* ]] || { echo "no Open MPI 5 in $prefix (cmake/setup --python)"; exit 77; }
export PATH=$prefix/bin:$PATH MN_LAUNCH_TIMEOUT=60
mnlaunch=$build/mnlaunch

# on HOSTS COMMAND…: its output is in out and err, its exit status in status.
on() {
  local hosts=$1
  shift
  status=0
  "${on_vn1[@]}" timeout -k 5 100 mpiexec -x PATH -x OMP_NUM_THREADS -x MN_LAUNCH_TIMEOUT -x PYTHONDONTWRITEBYTECODE=1 \
    --host "$hosts" "$@" >out 2>err || status=$?
}
# well NAME: the last command succeeded, and mnlaunch had nothing to say, but for the note of --show about the key.
well() { [ $status = 0 ] && [ -z "$(grep '^mnlaunch' err | grep -v '^mnlaunch: note: the key')" ] || fail "$1: status $status: $(cat out err)"; }

echo 'placement'
on vn1:2,vn2:2 "$mnlaunch" --check strict --show true
well 'placement'
same 'placement' $'0 vn1 0 0\n1 vn1 1 0\n2 vn2 0 1\n3 vn2 1 1' "$(placement out)"
on vn2:1,vn1:2 "$mnlaunch" --skip distribution --show true
well 'uneven'
same 'uneven' $'0 vn2 0 0\n1 vn1 0 1\n2 vn1 1 1' "$(placement out)"
on vn1:2,vn2:2 --map-by node "$mnlaunch" --show true
well 'cyclic'
same 'cyclic' $'0 vn1 0 0\n1 vn2 0 1\n2 vn1 1 0\n3 vn2 1 1' "$(placement out)"

echo 'an MPI program, its PMIx as it is'
mpicc -o mpi "$checkout/tests/support/hello_mpi.c"
on vn1:2,vn2:2 "$mnlaunch" --check strict ./mpi
well 'an MPI program'
same 'an MPI program' "$(for r in 0 1 2 3; do echo "$r of 4, RANK $r"; done)" "$(sort out)"
# shellcheck disable=SC2016
on vn1:1,vn2:1 "$mnlaunch" sh -c 'echo "${PMIX_MCA_gds-unset}"'
same 'PMIX_MCA_gds' $'unset\nunset' "$(cat out)"
# shellcheck disable=SC2016
on vn1:1,vn2:1 sh -c '"$0" true; exec "$0" --check strict ./mpi' "$mnlaunch"
well 'a second mnlaunch'

echo 'exit statuses'
for seen in 1 75 255; do
  # shellcheck disable=SC2016
  on vn1:2,vn2:2 "$mnlaunch" sh -c '[ $RANK != 3 ] || exit $0' $seen
  [ $status = $seen ] || fail "a program that ends with $seen: status $status: $(cat out err)"
done

echo 'a rank never comes'
# shellcheck disable=SC2016
MN_LAUNCH_TIMEOUT=3 on vn1:2,vn2:2 sh -c '[ "$PMIX_RANK" != 3 ] || exec sleep 15; exec "$0" true' "$mnlaunch"
[ $status = 78 ] && [ "$(grep -c '^mnlaunch: ' err)" = 1 ] && grep -q '^mnlaunch: error \[tasks\] vn2: rank 3 of 4 did not arrive in 3 s; ' err ||
  fail "an absent rank: status $status: $(cat err)"
