#!/usr/bin/env python3
"""Records what transformers computes with small networks, for language_models_test. usage: hub_networks.py > hub_networks.json"""
import json

import numpy
import torch
import transformers

LLAMA = {"vocab_size": 40, "hidden_size": 24, "intermediate_size": 36, "num_hidden_layers": 3, "num_attention_heads": 4,
         "max_position_embeddings": 32, "tie_word_embeddings": False}
NETWORKS = {
    "gpt2": {"model_type": "gpt2", "vocab_size": 40, "n_positions": 16, "n_embd": 24, "n_layer": 2, "n_head": 3},
    "llama 2": {**LLAMA, "model_type": "llama", "num_key_value_heads": 4, "rms_norm_eps": 1e-5},
    "llama 3": {**LLAMA, "model_type": "llama", "num_key_value_heads": 2, "tie_word_embeddings": True, "rope_theta": 500.0,
                "head_dim": 16, "attention_bias": True, "mlp_bias": True,
                "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                 "original_max_position_embeddings": 16}},
    "linear scaling": {**LLAMA, "model_type": "llama", "num_key_value_heads": 1,
                       "rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    "mistral": {**LLAMA, "model_type": "mistral", "num_key_value_heads": 2, "sliding_window": 4, "head_dim": 8},
    "qwen2": {**LLAMA, "model_type": "qwen2", "num_key_value_heads": 2, "use_sliding_window": True, "sliding_window": 5,
              "max_window_layers": 2, "tie_word_embeddings": True},
    "qwen3": {**LLAMA, "model_type": "qwen3", "num_key_value_heads": 2, "head_dim": 12},
}


def noise(count, seed):
    """Numbers in [-0.5, 0.5), by a hash of the index."""
    x = numpy.arange(count, dtype=numpy.uint32) + numpy.uint32(seed * 7919 % 2**32)
    for _ in range(2):
        x = (x ^ (x >> 16)) * numpy.uint32(0x45D9F3B)
    return (x ^ (x >> 16)).astype(numpy.float64) / 2**32 - 0.5


def set_weights(model):
    conv1d = transformers.pytorch_utils.Conv1D
    turned = {name + ".weight" for name, module in model.named_modules() if isinstance(module, conv1d)}
    for i, (name, parameter) in enumerate(sorted(dict(model.named_parameters()).items())):
        shape = parameter.T.shape if name in turned else parameter.shape
        values = torch.from_numpy(noise(parameter.numel(), i)).view(shape)
        is_scale = parameter.dim() == 1 and name.endswith("weight")
        values = (values.T if name in turned else values) * 0.5 + is_scale
        parameter.data.copy_(values.float())


def record(config):
    config = dict(config)
    model = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.for_model(config.pop("model_type"), **config, attn_implementation="eager"))
    model.config._attn_implementation = "eager"
    set_weights(model)
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    tokens = torch.arange(2 * 13).view(2, 13) ** 2 % 37
    logits = model(tokens[:, :-1]).logits
    optimizer, losses = torch.optim.SGD(model.parameters(), 0.1), []
    for _ in range(20):
        losses.append(model(tokens, labels=tokens).loss)
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    return {"logits": [round(x, 6) for x in logits[:, -1, ::5].flatten().tolist()],
            "losses": [round(x.item(), 6) for x in losses[::6]]}


def main():
    torch.set_num_threads(1)
    recorded = {}
    for name, config in NETWORKS.items():
        recorded[name] = {"config": config, **record(config)}
    print("{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in recorded.items()) + "\n}")


main()
