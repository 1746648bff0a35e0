/// The options of jobs/gpt.
#pragma once

#include <cstdint>
#include <string>

#include <mn/app/setup.hpp>
#include <mn/app/training.hpp>
#include <mn/core/options.hpp>
#include <mn/models/gpt.hpp>

namespace mn::jobs {

/// nanoGPT's small network for CPUs, whose rates are for minibatches of 12.
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
  }
  std::string train;       ///< empty: the dataset "gpt/train"
  std::string val;         ///< empty: the dataset "gpt/val"
  std::string vocabulary;  ///< empty: beside the folder of --train
  models::GptOptions network;
  bool recompute = false;
  std::int64_t report_every = 250;
  std::string generate;
  bool generates = false;  ///< --generate is given
  models::Sampling sampling;
};

/// The network as Training::metadata, and back: a file or checkpoint that says how its network was made decides over
/// defaults. Throws UsageError if it differs from an option on the command line, DataError for what are no sizes.
[[nodiscard]] Metadata metadata_of(const models::GptOptions& network);
void take_network(const Metadata& metadata, const std::string& file, const Options& options,
                  models::GptOptions& network);

/// Declares those that are not common to all jobs, with their check; the values in `given` are the defaults.
void declare_options(Options& options, GptSettings& given);

/// The learning rate: --lr, or what suits the network.
[[nodiscard]] double base_rate(const GptSettings& given);

}  // namespace mn::jobs
