#!/usr/bin/env bash
# slurm/imagenet.sbatch as it is, on CPUs as its comments say: trains on a few pictures that mnshard made shards of.
pictures=${MN_TEST_DATA:-$(dirname "${BASH_SOURCE[0]}")/../../../shared/data}/tin10
[ -d "$pictures" ] || { echo "not run: there is no $pictures (MN_TEST_DATA)"; exit 77; }
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

for part in train val; do
  for class in "$pictures/$part"/*/; do
    mkdir -p "folders/$part/$(basename "$class")"
    find "$class" -type f | sort | sed -n 1,4p | xargs -I{} cp {} "folders/$part/$(basename "$class")/"
  done
  ran "$part.txt" "$build/mnshard" images "folders/$part" --out "data/imagenet/$part"
done
job=$(MN_DATA=$work/data MN_BUILD_DIR=$build submit --nodes=2 --gpus-per-node=0 --ntasks-per-node=1 --cpus-per-task=2 \
  "$checkout/slurm/imagenet.sbatch" --precision fp32 --arch resnet18 --image-size 64 --batchsize 4 --epoch 1) ||
  fail "the job: $(cat imagenet-*.txt)"
[ -s "imagenet-$job/log" ] && [ -s "imagenet-$job/model.safetensors" ] || fail "no log or no model: $(cat imagenet-*.txt)"
