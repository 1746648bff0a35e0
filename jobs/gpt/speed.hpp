/// How fast a language model trains: values that jobs/gpt adds to OUT/log.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include <mn/models/hub_config.hpp>
#include <mn/models/language_model.hpp>

namespace mn::jobs {

/// Floating-point operations of forward and backward for a token: 6 for each weight of a matrix, and for attention
/// 12 · layers · width of all heads · context (Chowdhery et al. 2022, arXiv:2204.02311, appendix B).
[[nodiscard]] double flop_per_token(const models::LanguageModel& model, const models::NetworkOptions& network);

/// The model name of this host's first GPU, as NVIDIA's driver has it; empty without the driver. `folder` is the
/// driver's list of GPUs.
[[nodiscard]] std::string gpu_name(const std::filesystem::path& folder = "/proc/driver/nvidia/gpus");

/// The peak of a GPU's dense matrix products at --precision `precision`, in FLOP a second, by NVIDIA's data sheets. No
/// value for an unknown GPU, or for fp32, which has no tensor cores.
[[nodiscard]] std::optional<double> peak_flop_per_second(std::string_view gpu, std::string_view precision);

/// What the values of an entry follow from.
struct LanguageFacts {
  std::int64_t context = 0;  ///< tokens of a sample
  int ranks = 1;
  bool has_plain_loss = true;  ///< "main/loss" is the mean of −log p(token)
  double flop_per_token = 0;
  std::string gpu = {};                  ///< gpu_name(); empty on CPUs
  std::optional<double> peak_flop = {};  ///< FLOP that one rank's GPU computes in a second at most; no value: unknown
};

/// Adds perplexity (e to the loss), tokens_per_second of all ranks, tokens_per_second_per_rank and, if the peak is
/// known, mfu (model FLOPs utilization): flop_per_token × tokens_per_second / (ranks × peak). For Training::derive.
[[nodiscard]] std::function<void(nlohmann::json& entry)> language_values(const LanguageFacts& facts);

}  // namespace mn::jobs
