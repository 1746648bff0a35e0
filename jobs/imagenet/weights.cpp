#include "imagenet/weights.hpp"

namespace mn::jobs {
namespace {

/// torchvision.models.ConvNeXt: `features` alternates downsampling and stages. A layer scale is (C, 1, 1) there.
FileLayout convnext_layout() {
  FileLayout layout{.flattened = {".gamma"},
                    .renamed = {{"features.0.0.", "stem.0."},
                                {"features.0.1.", "stem.1."},
                                {".block.0.", ".conv_dw."},
                                {".block.2.", ".norm."},
                                {".block.3.", ".mlp.fc1."},
                                {".block.5.", ".mlp.fc2."},
                                {".layer_scale", ".gamma"},
                                {"classifier.0.", "head.norm."},
                                {"classifier.2.", "head.fc."}}};
  for (int stage = 0; stage < 4; ++stage) {
    const std::string name = "stages." + std::to_string(stage);
    if (stage > 0) layout.renamed.emplace_back("features." + std::to_string(2 * stage) + ".", name + ".downsample.");
    layout.renamed.emplace_back("features." + std::to_string(2 * stage + 1) + ".", name + ".blocks.");
  }
  return layout;
}

/// torchvision.models.VisionTransformer. Its published files have the older names mlp.linear_1 and mlp.linear_2.
FileLayout vit_layout() {
  return {.renamed = {{"class_token", "cls_token"},
                      {"conv_proj.", "patch_embed.proj."},
                      {"encoder.pos_embedding", "pos_embed"},
                      {"encoder.layers.encoder_layer_", "blocks."},
                      {"encoder.ln.", "norm."},
                      {".ln_1.", ".norm1."},
                      {".self_attention.in_proj_", ".attn.qkv."},
                      {".self_attention.out_proj.", ".attn.proj."},
                      {".ln_2.", ".norm2."},
                      {".mlp.0.", ".mlp.fc1."},
                      {".mlp.3.", ".mlp.fc2."},
                      {".mlp.linear_1.", ".mlp.fc1."},
                      {".mlp.linear_2.", ".mlp.fc2."},
                      {"heads.head.", "head."}}};
}

}  // namespace

FileLayout weights_layout(const std::string& arch) {
  if (arch.starts_with("convnext")) return convnext_layout();
  return arch.starts_with("vit") ? vit_layout() : FileLayout();
}

}  // namespace mn::jobs
