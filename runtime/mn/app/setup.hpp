/// Declares and checks the common options of all training jobs, and sets up a job as the options say.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <c10/core/ScalarType.h>

#include <mn/app/common_options.hpp>
#include <mn/app/conditions.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/core/metric.hpp>
#include <mn/core/options.hpp>
#include <mn/trainer/optimizer.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::app {

/// Returns whether lower or higher numbers of the value that --monitor names are better. Throws UsageError if neither
/// --monitor-better nor the name of the value tells.
[[nodiscard]] Better monitored_direction(const CommonOptions& common);

/// Declares the common options. `common` holds the defaults now, and the parsed values later.
void add_common_options(Options& options, CommonOptions& common);

/// Says that the option --NAME excludes a CUDA graph while `is_used` returns true. --cuda-graph auto then means off,
/// and --cuda-graph on throws a UsageError with the text `reason`.
void exclude_cuda_graph(Options& options, CommonOptions& common, const std::string& name,
                        const std::function<bool()>& is_used, const std::string& reason);

/// Parses the command line. False if --help or --version is given; rank 0 has then printed the help or the versions.
[[nodiscard]] bool parse_options(Options& options, int argc, const char* const* argv, int rank);

/// Collective: checks the options, makes the communicator, and sets precision, determinism and the random seed.
[[nodiscard]] std::shared_ptr<Communicator> set_up(const CommonOptions& common);

/// What GPUs keep in the host's memory.
struct Offload {
  bool activations = false;  ///< OffloadedActivations
  bool optimizer = false;    ///< ShardOptions::offload
};
/// Returns the parts that --offload lists. Throws UsageError for an unknown part.
[[nodiscard]] Offload parse_offload(std::string_view list);

/// Returns the options of the multi-node optimizer. With --profile, they have a trace. trainer_options() gives the same
/// trace to the trainer.
[[nodiscard]] OptimizerOptions optimizer_options(const CommonOptions& common);

/// Collective: makes the multi-node optimizer of --optimizer, with the learning rate `rate` and clipping by
/// --clip-norm. If --precision is kNarrowWeights, converts the model's weights to bfloat16 (narrow_weights()), and the
/// optimizer keeps float32 masters of the weights.
[[nodiscard]] std::shared_ptr<MultiNodeOptimizer> create_optimizer(const CommonOptions& common, double rate,
                                                                   const torch::nn::Module& model,
                                                                   const std::shared_ptr<Communicator>& comm,
                                                                   const OptimizerOptions& how);

/// Returns the options of the trainer: length of the training, output folder and trace.
[[nodiscard]] TrainerOptions trainer_options(const CommonOptions& common, const OptimizerOptions& how);

/// Sets the precision of float32 operations in this process. With "tf32", matrix products may round their inputs to
/// TF32 if the hardware supports this format; with all other precisions, they do not. With "bf16", "fp16" and
/// kNarrowWeights, an AutocastScope computes matrix products and convolutions in bfloat16 or float16.
void set_precision(const std::string& precision);

/// Chooses the algorithms of libtorch. If `on` is true, libtorch uses deterministic algorithms, so that two runs give
/// equal bits; an operation that has no deterministic algorithm throws. If `on` is false, cuDNN tries all its
/// algorithms when a tensor shape first occurs, and uses the fastest.
void set_deterministic(bool on);

/// Returns the type for an AutocastScope with this precision. No value for "fp32" and "tf32", which need no
/// AutocastScope.
[[nodiscard]] std::optional<c10::ScalarType> autocast_type(const std::string& precision);

}  // namespace mn::app
