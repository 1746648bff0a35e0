"""torchvision_names.py IN OUT: writes the weights of a ConvNeXt or ViT to OUT under the names, and with the shapes, of
torchvision's published files."""
import json
import re
import struct
import sys

CONVNEXT = [(r"^stem\.", "features.0."), (r"^stages\.(\d)\.downsample", lambda m: f"features.{2 * int(m[1])}"),
            (r"^stages\.(\d)\.blocks", lambda m: f"features.{2 * int(m[1]) + 1}"), (r"\.conv_dw\.", ".block.0."),
            (r"(?<=\d)\.norm\.", ".block.2."), (r"\.mlp\.fc1\.", ".block.3."), (r"\.mlp\.fc2\.", ".block.5."),
            (r"\.gamma", ".layer_scale"), (r"^head\.norm", "classifier.0"), (r"^head\.fc", "classifier.2")]
VIT = [("cls_token", "class_token"), (r"patch_embed\.proj", "conv_proj"), ("pos_embed", "encoder.pos_embedding"),
       (r"^norm\.", "encoder.ln."), (r"^head\.", "heads.head."), (r"^blocks\.", "encoder.layers.encoder_layer_"),
       (r"\.norm([12])\.", r".ln_\1."), (r"\.attn\.qkv\.", ".self_attention.in_proj_"), (r"\.attn\.proj\.", ".self_attention.out_proj."),
       (r"\.mlp\.fc([12])\.", r".mlp.linear_\1.")]

with open(sys.argv[1], "rb") as file:
    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    data = file.read()
rules = VIT if "cls_token" in header else CONVNEXT
renamed = {}
for name, entry in header.items():
    for pattern, replacement in rules if name != "__metadata__" else []:
        name = re.sub(pattern, replacement, name)
    if name.endswith("layer_scale"):
        entry["shape"] += [1, 1]
    renamed[name] = entry
text = json.dumps(renamed).encode()
text += b" " * (-len(text) % 8)
with open(sys.argv[2], "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + data)
