"""Runs of jobs/gpt beside transformers, on networks with random weights."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers

SOURCE, BUILD = os.environ["MN_SOURCE_DIR"], os.environ["MN_BUILD_DIR"]
sys.path.insert(0, f"{SOURCE}/tests/support")
from safetensors_file import load, save  # noqa: E402, F401

CONTEXT, SAMPLES, STEPS, RATE = 24, 28, 20, 1e-3  # SAMPLES is the number in data/train
TEXT = "".join(f"{i * i % 97} of {i % 13} blue birds sing, " for i in range(200))[:(CONTEXT + 1) * 30]
LLAMA = {"vocab_size": 300, "hidden_size": 32, "intermediate_size": 56, "num_hidden_layers": 2, "num_attention_heads": 4,
         "max_position_embeddings": 64, "tie_word_embeddings": False}
MEDIUM = {**LLAMA, "hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 6, "num_attention_heads": 8}
LLAMA3 = {"num_key_value_heads": 2, "rope_theta": 500000.0,
          "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                           "original_max_position_embeddings": 32}}
GPT2 = {"vocab_size": 300, "n_positions": 32, "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}
NETWORKS = {
    "gpt2": ("gpt2", {**GPT2, "n_embd": 32, "n_layer": 2, "n_head": 4}, {}),
    "llama2": ("llama", LLAMA, {"max_shard_size": "40KB"}),
    "llama3": ("llama", {**LLAMA, **LLAMA3, "tie_word_embeddings": True}, {}),
    "mistral": ("mistral", {**LLAMA, "num_key_value_heads": 2, "sliding_window": 7, "head_dim": 16}, {}),
    "qwen2": ("qwen2", {**LLAMA, "num_key_value_heads": 1, "tie_word_embeddings": True}, {}),
    "qwen3": ("qwen3", {**LLAMA, "num_key_value_heads": 2, "head_dim": 16}, {}),
    "gpt2-medium": ("gpt2", {**GPT2, "n_embd": 256, "n_layer": 6, "n_head": 8}, {}),
    "llama2-medium": ("llama", MEDIUM, {}),
    "llama3-medium": ("llama", {**MEDIUM, **LLAMA3}, {"max_shard_size": "10MB"}),
    "mistral-medium": ("mistral", {**MEDIUM, "num_key_value_heads": 2, "sliding_window": 7}, {}),
    "qwen2-medium": ("qwen2", {**MEDIUM, "num_key_value_heads": 2}, {}),
    "qwen3-medium": ("qwen3", {**MEDIUM, "num_key_value_heads": 2, "head_dim": 64}, {}),
}
TRAIN = ["--iterations", STEPS, "--report-every", 1, "--batchsize", SAMPLES, "--lr", RATE, "--schedule", "constant",
         "--warmup-iterations", 0, "--weight-decay", 0, "--clip-norm", 0, "--checkpoint-every", "none"]


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        sys.exit(f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def gpt(ranks, *options):
    return run(f"{SOURCE}/tests/support/mpiexec", ranks, f"{BUILD}/jobs/gpt", "--device", "cpu", "--train", "data/train",
               "--val", "data/train", *options)


def samples():
    """The tokens of the training samples."""
    found = []
    for i in range(SAMPLES):
        run(f"{BUILD}/mnshard", "extract", "data/train", i, "--out", "sample")
        found.append(list(pathlib.Path("sample").read_bytes()))
    return torch.tensor(found)


def differ(first, second):
    return max((a - b).abs().max().item() for a, b in zip(first, second, strict=True))


def check(what, difference, tolerance):
    print(f"  {what}: differ by {difference:.1e}, at most {tolerance:.0e}", flush=True)
    if not difference <= tolerance:
        sys.exit(f"FAILED: {what}")


def train(model, tokens):
    """The losses before each step."""
    optimizer, losses = torch.optim.AdamW(model.parameters(), RATE, (0.9, 0.99), weight_decay=0), []
    for _ in range(STEPS):
        losses.append(model(tokens, labels=tokens).loss)
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    return [loss.detach() for loss in losses]


def random_network(name):
    torch.manual_seed(1)
    kind, settings, _ = NETWORKS[name]
    return transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(
        kind, **settings, bos_token_id=1, eos_token_id=2, initializer_range=0.05))


def losses_in(log):
    return torch.tensor([entry["main/loss"] for entry in json.loads(pathlib.Path(log).read_text())])


def main(names, compare):
    """Calls compare(name, the tokens of the training samples) in a folder with the data, for each name."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        pathlib.Path("text.txt").write_text(TEXT, encoding="utf-8")
        run(f"{BUILD}/mnshard", "tokens", "text.txt", "--out", "data", "--context", CONTEXT, "--vocabulary", "bytes")
        tokens = samples()
        for name in names:
            pathlib.Path(name).mkdir()
            os.symlink(f"{work}/data", f"{name}/data")
            os.chdir(name)
            compare(name, tokens)
            os.chdir(work)
    print("1 passed, 0 failed")
