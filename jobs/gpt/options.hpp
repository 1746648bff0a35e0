#pragma once

#include <cstdint>
#include <string>

#include <mn/app/setup.hpp>
#include <mn/core/options.hpp>
#include <mn/models/language_model.hpp>

#include "gpt/lora.hpp"
#include "gpt/loss.hpp"
#include "gpt/network.hpp"

namespace mn::jobs {

/// The options of jobs/gpt. The defaults are those of nanoGPT's small network for CPUs, with learning rates for
/// minibatches of 12 samples.
struct GptSettings : app::CommonOptions {
  GptSettings() {
    batchsize = 12;
    epoch = 1000;
    iterations = 2000;
    optimizer = "adamw";
    beta2 = 0.99;
    weight_decay = 0.1;
    schedule = "cosine";
    min_lr = 1e-4;
    warmup_iterations = 100;
    clip_norm = 1;
    checkpoint_every = "250i";
    cuda_graph = "auto";
  }
  std::string train;       ///< empty: the dataset "gpt/train"
  std::string val;         ///< empty: the dataset "gpt/val"
  std::string vocabulary;  ///< empty: vocabulary.json beside the folder of --train
  NetworkSettings network;
  std::string compile;   ///< package of mn-compile; "auto": made by rank 0; empty: the network is not compiled
  std::string save_hub;  ///< empty: not written
  LoraSettings lora;
  LossOptions loss;
  std::int64_t tokens = 0;  ///< tokens to train on; 0: `iterations` decides
  std::int64_t report_every = 250;
  std::string generate;
  std::string prompts;  ///< file with texts to continue
  bool generates = false;
  models::Sampling sampling;
};

/// Throws UsageError if an option excludes the experts of the network, or if the network has too few experts.
void check_experts(const GptSettings& given, const models::NetworkOptions& network);

/// Declares the options of this job and their checks. `given` holds the defaults now, and the parsed values later.
void declare_options(Options& options, GptSettings& given);

/// The value of --lr, or the default for this network.
[[nodiscard]] double base_rate(const GptSettings& given);

}  // namespace mn::jobs
