#!/usr/bin/env bash
# slurm/imagenet.sbatch as it is, on CPUs as its comments say: trains on a few images that mnshard made shards of.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ran images.txt "$build/tests/make_images" images --per-class 4 --val-per-class 4
for part in train val; do
  ran "$part.txt" "$build/mnshard" images "images/$part" --out "data/imagenet/$part"
done
job=$(MN_DATA=$work/data MN_BUILD_DIR=$build submit --nodes=2 --gpus-per-node=0 --ntasks-per-node=1 --cpus-per-task=2 \
  "$checkout/slurm/imagenet.sbatch" --precision fp32 --arch resnet18 --image-size 64 --batchsize 4 --epoch 1) ||
  fail "the job: $(cat imagenet-*.txt)"
[ -s "imagenet-$job/log" ] && [ -s "imagenet-$job/model.safetensors" ] || fail "no log or no model: $(cat imagenet-*.txt)"
