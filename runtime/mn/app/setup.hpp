/// Declares and checks the common options of all training jobs, and sets a job up by them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <c10/core/ScalarType.h>

#include <mn/app/common_options.hpp>
#include <mn/app/conditions.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/core/metric.hpp>
#include <mn/core/options.hpp>
#include <mn/trainer/optimizer.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::app {

/// Says whether lower or higher numbers are better for the value that --monitor names. Throws UsageError if neither
/// --monitor-better nor the name of the value tells.
[[nodiscard]] Better monitored_direction(const CommonOptions& common);

/// Declares the common options. `common` holds the defaults, and later the parsed values.
void add_common_options(Options& options, CommonOptions& common);

/// While `is_used` returns true, --NAME excludes a CUDA graph, because of `reason`: --cuda-graph auto then means off,
/// and --cuda-graph on throws UsageError.
void exclude_cuda_graph(Options& options, CommonOptions& common, const std::string& name,
                        const std::function<bool()>& is_used, const std::string& reason);

/// Parses the command line. False if --help or --version is given; in this case rank 0 prints the help or the versions.
[[nodiscard]] bool parse_options(Options& options, int argc, const char* const* argv, int rank);

/// Collective: checks the options, makes the communicator, and sets precision, determinism and the random seed.
[[nodiscard]] std::shared_ptr<Communicator> set_up(const CommonOptions& common);

/// Returns the options of the multi-node optimizer; with --profile, they have a trace, which trainer_options() gives to
/// the trainer, too.
[[nodiscard]] OptimizerOptions optimizer_options(const CommonOptions& common);

/// Collective: makes the multi-node optimizer of --optimizer, with this learning rate and --clip-norm. With
/// kNarrowWeights, converts the model's weights to bfloat16 (narrow_weights()), and the optimizer keeps masters.
[[nodiscard]] std::shared_ptr<MultiNodeOptimizer> create_optimizer(const CommonOptions& common, double rate,
                                                                   const torch::nn::Module& model,
                                                                   const std::shared_ptr<Communicator>& comm,
                                                                   const OptimizerOptions& how);

/// Returns the options of the trainer: length of the training, output folder and trace.
[[nodiscard]] TrainerOptions trainer_options(const CommonOptions& common, const OptimizerOptions& how);

/// Sets the precision of float32 operations in this process. With "tf32", matrix products may round their inputs to
/// TF32 if the hardware supports TF32. With the other precisions float32 operations do not round to TF32. With "bf16",
/// "fp16" and kNarrowWeights, an AutocastScope computes matrix products and convolutions in bfloat16 or float16.
void set_precision(const std::string& precision);

/// Sets the algorithms of libtorch. If `on` is true, libtorch uses deterministic algorithms, so that two runs have
/// equal bits; an operation without a deterministic algorithm throws. If `on` is false, cuDNN tries its algorithms at
/// the first step of each tensor shape, and selects the fastest.
void set_deterministic(bool on);

/// Returns the type for an AutocastScope with this precision; no value for "fp32" and "tf32".
[[nodiscard]] std::optional<c10::ScalarType> autocast_type(const std::string& precision);

}  // namespace mn::app
