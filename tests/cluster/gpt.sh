#!/usr/bin/env bash
# slurm/gpt.sbatch as it is, on CPUs as its comments say: trains a small network, and then tunes the folder that it wrote.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

for i in $(seq 400); do echo "$i blue birds sing on $((i % 7)) trees"; done >text.txt
ran tokens.txt "$build/mnshard" tokens text.txt --out data/gpt --context 16 --vocabulary bytes
gpt() {
  MN_DATA=$work/data MN_BUILD_DIR=$build submit --gpus-per-node=0 --ntasks-per-node=1 --cpus-per-task=1 \
    "$checkout/slurm/gpt.sbatch" --precision fp32 --iterations 3 "$@" || fail "the job: $(cat gpt-*.txt)"
}
job=$(gpt --network llama --width 16 --layers 2 --heads 2 --save-hub small)
[ -s small/config.json ] && [ -s "gpt-$job/model.safetensors" ] || fail "no folder or no model: $(cat gpt-*.txt)"
job=$(gpt --initmodel small --lora 2)
[ -s "gpt-$job/adapter_model.safetensors" ] || fail "no adapters: $(cat gpt-*.txt)"
