#!/usr/bin/env bash
# A cluster without a shared file system: a batch job copies what it needs to each node's own /tmp and runs it there.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
head -c 300000 /dev/urandom >data.h5
cat >job.sh <<'JOB'
#!/bin/bash
srun --ntasks-per-node=1 mkdir -p /tmp/mn
sbcast -p "$build/mnlaunch" /tmp/mn/mnlaunch
sbcast -p data.h5 /tmp/mn/data.h5
srun -K --chdir=/tmp/mn /tmp/mn/mnlaunch --check-file /tmp/mn/data.h5 --show true
JOB
build=$build submit -N2 --ntasks-per-node=2 -o out.txt job.sh >/dev/null || fail "the job: $(cat out.txt)"
same 'placement' $'0 vn1 0 0\n1 vn1 1 0\n2 vn2 0 1\n3 vn2 1 1' "$(placement out.txt)"
same 'findings: results are on one node' '[output]' "$(sed -n 's/^mnlaunch: [a-z]* \(\[[a-z]*\]\).*/\1/p' out.txt)"
