/// What all training jobs have in common: their options, and what follows from them before training.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <mn/comm/communicator.hpp>
#include <mn/core/options.hpp>
#include <mn/data/scatter.hpp>
#include <mn/train/optimizer_options.hpp>

namespace mn::jobs {

inline constexpr std::int64_t kMostSamples = 1 << 20;  ///< of a minibatch on one rank

struct CommonOptions {
  std::int64_t batchsize = 100;  ///< of each rank
  std::int64_t epoch = 20;
  std::string communicator = "auto";
  std::string device = "auto";
  std::string out = "result";
  std::string resume;  ///< empty: start anew
  std::int64_t seed = 0;
  std::string precision = "fp32";
  bool deterministic = false;
  std::string checkpoint_every = "1e";  ///< Interval::parse, or "none"
  std::string overlap = "auto";         ///< on, off
  bool double_buffering = false;
  std::string compress = "none";  ///< a name that parse_compression takes
  double compress_density = CompressionOptions().density;
  std::int64_t compress_rank = CompressionOptions().rank;
  std::int64_t local_steps = 1;
  double outer_momentum = 0;
  bool profile = false;
};

/// Declares them; the values in `common` are the defaults.
void add_common_options(Options& options, CommonOptions& common);

/// Options::parse; prints help or versions on rank 0. False if that was all that was asked for.
[[nodiscard]] bool parse_options(Options& options, int argc, const char* const* argv, int rank);

/// Collective: checks what can be checked now; the communicator on the device asked for; sets precision, determinism
/// and this rank's random seed.
[[nodiscard]] std::shared_ptr<Communicator> set_up(const CommonOptions& common);

/// How the ranks train together. Overlap is on by default where reductions leave this rank's cores alone: between nodes
/// and on GPUs. The trace (null without --profile) is for the trainer too.
[[nodiscard]] OptimizerOptions optimizer_options(const CommonOptions& common, const Communicator& comm);

/// Throws UsageError unless there is a sample for each rank. `name` is what the user calls the dataset.
void check_enough_samples(const std::string& name, const SubDataset& part);

/// Collective: rank 0 writes OUT/config.ini. Throws UsageError on all ranks alike.
void write_config(const Options& options, const std::filesystem::path& out, Communicator& comm);

}  // namespace mn::jobs
