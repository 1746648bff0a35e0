#include "gpt/speed.hpp"

#include <cmath>
#include <fstream>
#include <map>

#include <torch/torch.h>

#include <mn/core/json.hpp>

namespace mn::jobs {
namespace {

constexpr std::string_view kLoss = "main/loss";

struct Peak {
  std::string_view gpu;  // part of the model's name
  double tera_flop = 0;  // a second, of dense bf16 and fp16 products
};
/// Longer names come before their beginnings.
constexpr Peak kPeaks[] = {
    {"GH200", 989.4}, {"H200", 989.4}, {"H100 PCIe", 756.5}, {"H100 NVL", 835.5}, {"H100 80GB HBM3", 989.4},
    {"A100", 312},    {"L40S", 362},   {"L4", 121},          {"A40", 149.7},      {"A10", 125},
    {"B200", 2250}};

/// Embeddings are read, not multiplied, unless they are also the output layer.
bool multiplies(const std::string& name, const torch::Tensor& parameter, bool has_head) {
  if (parameter.dim() < 2 || name == "wpe.weight") return false;
  return !(has_head && name == "model.embed_tokens.weight");
}

double width_of_heads(const models::NetworkOptions& network) {
  if (const auto* llama = std::get_if<models::LlamaOptions>(&network))
    return static_cast<double>(llama->heads * llama->resolved().head_width);
  return static_cast<double>(std::get<models::GptOptions>(network).width);
}

}  // namespace

double flop_per_token(const models::LanguageModel& model, const models::NetworkOptions& network) {
  const auto parameters = model.named_parameters();
  const bool has_head = parameters.contains("lm_head.weight");
  double weights = 0;
  for (const auto& item : parameters) {
    if (multiplies(item.key(), item.value(), has_head)) weights += static_cast<double>(item.value().numel());
  }
  const double of_attention = std::visit(
      [](const auto& each) { return static_cast<double>(each.layers) * static_cast<double>(each.context); }, network);
  return 6 * weights + 12 * of_attention * width_of_heads(network);
}

std::string gpu_name(const std::filesystem::path& folder) {
  std::error_code none;
  for (const auto& gpu : std::filesystem::directory_iterator(folder, none)) {
    std::ifstream file(gpu.path() / "information");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("Model:")) return line.substr(std::min(line.find_first_not_of(" \t", 6), line.size()));
    }
  }
  return "";
}

std::optional<double> peak_flop_per_second(std::string_view gpu, std::string_view precision) {
  if (precision == "fp32") return std::nullopt;
  for (const Peak& peak : kPeaks) {
    if (gpu.find(peak.gpu) != std::string_view::npos) return peak.tera_flop * (precision == "tf32" ? 0.5e12 : 1e12);
  }
  return std::nullopt;
}

std::function<void(nlohmann::json&)> language_values(const LanguageFacts& facts) {
  return [facts](nlohmann::json& entry) {
    std::map<std::string, double> perplexities;
    for (const auto& [name, value] : entry.items()) {
      if (!name.ends_with(kLoss) || !value.is_number() || (name == kLoss && !facts.has_plain_loss)) continue;
      perplexities[name.substr(0, name.size() - 4) + "perplexity"] = std::exp(value.get<double>());
    }
    for (const auto& [name, value] : perplexities) entry[name] = value;
    const auto speed = entry.find("images_per_second");
    if (speed == entry.end() || !speed->is_number()) return;
    const double tokens = speed->get<double>() * static_cast<double>(facts.context);
    entry["tokens_per_second"] = tokens;
    entry["tokens_per_second_per_rank"] = tokens / facts.ranks;
    if (facts.peak_flop) entry["mfu"] = facts.flop_per_token * tokens / (facts.ranks * *facts.peak_flop);
  };
}

}  // namespace mn::jobs
