#pragma once

#include <cstdint>
#include <string>

#include <mn/app/setup.hpp>
#include <mn/core/options.hpp>
#include <mn/models/gpt.hpp>

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
  models::GptOptions network;
  bool recompute = false;
  std::int64_t report_every = 250;
  std::string generate;
  bool generates = false;
  models::Sampling sampling;
};

/// The sizes of the network, for Training::metadata.
[[nodiscard]] Metadata metadata_of(const models::GptOptions& network);
/// Replaces the default sizes of `network` by the sizes in `metadata` from the file `file`. Throws UsageError if a size
/// differs from an option on the command line, and DataError if a size is not a valid number.
void take_network(const Metadata& metadata, const std::string& file, const Options& options,
                  models::GptOptions& network);

/// Throws UsageError if an option excludes the experts of the network, or if the network has too few experts. Call it
/// after take_network().
void check_experts(const GptSettings& given);

/// Declares the options of this job and their checks. `given` holds the defaults now, and the parsed values later.
void declare_options(Options& options, GptSettings& given);

/// The value of --lr, or the default for this network.
[[nodiscard]] double base_rate(const GptSettings& given);

}  // namespace mn::jobs
