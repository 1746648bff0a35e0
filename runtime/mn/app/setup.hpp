/// Defines the common options of all training jobs, and does the set-up that follows from the options.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <c10/core/ScalarType.h>

#include <mn/app/update.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/core/metric.hpp>
#include <mn/core/options.hpp>
#include <mn/trainer/optimizer.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::app {

inline constexpr std::int64_t kMaxSamples = 1 << 20;  ///< most samples of a minibatch on one rank

/// The value of --checkpoint-every that asks for checkpoints as often as possible, while they take at most a hundredth
/// of the training time.
inline constexpr const char* kContinuousCheckpoints = "auto";

/// The options of every job, which --help describes. A job with further options derives its own class from
/// CommonOptions, and may set other defaults.
struct CommonOptions : UpdateOptions {
  std::int64_t batchsize = 100;         ///< samples of a minibatch on each rank
  std::int64_t accumulate = 1;          ///< minibatches of an update
  std::int64_t epoch = 20;              ///< passes over the training data
  std::int64_t iterations = 0;          ///< updates after which training ends; 0: `epoch` decides
  std::string communicator = "auto";    ///< a name for create_communicator()
  std::string device = "auto";          ///< cpu, cuda, cuda:K
  std::string stage;                    ///< folder on each node for copies of shards; empty: no copies
  std::int64_t stage_rate = 256;        ///< MiB that a node copies in a second; 0: no limit
  std::int64_t stage_budget = 0;        ///< GiB of a dataset's copies on a node; 0: all but a tenth of the disk
  std::string out = "result";           ///< folder for all output
  std::string resume;                   ///< a checkpoint or "auto"; empty: start from the beginning
  bool balance = false;                 ///< draw each class equally often
  std::int64_t seed = 0;                ///< seed of the parameters and of the order of samples
  std::string precision = "fp32";       ///< tf32, bf16, fp16
  std::string cuda_graph = "off";       ///< TrainerOptions::cuda_graph; on, auto
  bool deterministic = false;           ///< every run has equal bits
  std::string checkpoint_every = "1e";  ///< Interval::parse, kContinuousCheckpoints or "none"
  std::int64_t keep = 3;                ///< number of newest checkpoints to keep
  std::string val_every;                ///< Interval::parse; empty: with each report
  std::string overlap = "auto";         ///< on, off
  bool double_buffering = false;        ///< OptimizerOptions::double_buffering
  std::string compress = "none";        ///< a name for parse_compression()
  double compress_density = CompressionOptions().density;               ///< density of topk
  std::int64_t compress_rank = CompressionOptions().rank;               ///< rank of powersgd
  std::int64_t local_steps = 1;                                         ///< OptimizerOptions::local_steps
  std::int64_t check_parameters = OptimizerOptions().check_parameters;  ///< updates between comparisons; 0: never
  double outer_momentum = 0;                                            ///< OptimizerOptions::outer_momentum
  std::string hang = "abort";                    ///< action for a rank without progress; report, off
  bool profile = false;                          ///< write profile.jsonl and trace.json
  bool tensorboard = false;                      ///< write event files for TensorBoard
  double clip_norm = 0;                          ///< largest norm of gradients; 0: no clipping
  std::int64_t norms = 0;                        ///< updates between reports of norms; 0: no reports
  double ema = 0;                                ///< decay of averaged weights; 0: no averaging
  std::string monitor = "validation/main/loss";  ///< name of a value of the log
  std::string monitor_better = "auto";           ///< lower, higher; auto: by the name of the value
  std::int64_t early_stop = 0;                   ///< reports without a better value; 0: no early stop
  double min_delta = 0;                          ///< least improvement for early_stop and the schedule plateau
  bool keep_best = false;                        ///< keep the checkpoint of the best report
  std::string initmodel;                         ///< file with initial weights; empty: random weights
  bool initmodel_partial = false;                ///< load only the matching weights of initmodel
  std::string evaluate;                          ///< file with weights to validate; empty: train
  std::string find_lr;                           ///< search for a learning rate: "FIRST,LAST,STEPS"; empty: train
  bool one_batch = false;                        ///< one update and one minibatch of validation
};

/// True if --best, --early-stop or --schedule plateau is given. Only these options use the value that --monitor names.
[[nodiscard]] inline bool uses_monitor(const CommonOptions& common) {
  return common.keep_best || common.early_stop > 0 || common.schedule == "plateau";
}

/// Says whether lower or higher numbers are better for the value that --monitor names. Throws UsageError if neither
/// --monitor-better nor the name of the value tells.
[[nodiscard]] Better monitored_direction(const CommonOptions& common);

/// Declares the common options. `common` holds the defaults, and later the parsed values.
void add_common_options(Options& options, CommonOptions& common);

/// Says that a step with the option --NAME, which is in use if `is_used` returns true, cannot be a CUDA graph, because
/// `reason`: --cuda-graph auto then means off, and --cuda-graph on throws UsageError.
void exclude_cuda_graph(Options& options, CommonOptions& common, const std::string& name,
                        const std::function<bool()>& is_used, const std::string& reason);

/// Parses the command line. False if --help or --version is given; in this case rank 0 prints the help or the versions.
[[nodiscard]] bool parse_options(Options& options, int argc, const char* const* argv, int rank);

/// Checks the options, creates the communicator of --communicator on --device, and sets precision, determinism and this
/// rank's random seed. Collective.
[[nodiscard]] std::shared_ptr<Communicator> set_up(const CommonOptions& common);

/// Returns the options of the multi-node optimizer. With --overlap auto, the optimizer decides whether communication
/// overlaps with the backward pass. With --profile, the result has a trace, which trainer_options() gives to the
/// trainer, too.
[[nodiscard]] OptimizerOptions optimizer_options(const CommonOptions& common);

/// Collective: makes the multi-node optimizer of --optimizer, with learning rate `rate` and the clipping of
/// --clip-norm.
[[nodiscard]] std::shared_ptr<MultiNodeOptimizer> create_optimizer(const CommonOptions& common, double rate,
                                                                   const torch::nn::Module& model,
                                                                   const std::shared_ptr<Communicator>& comm,
                                                                   const OptimizerOptions& how);

/// Returns the options of the trainer: length of the training, output folder and trace.
[[nodiscard]] TrainerOptions trainer_options(const CommonOptions& common, const OptimizerOptions& how);

/// Sets the precision of float32 operations in this process. With "tf32", matrix products may round their inputs to
/// TF32 if the hardware supports TF32. With "fp32", "bf16" and "fp16", float32 operations do not round to TF32. With
/// "bf16" and "fp16", an AutocastScope computes matrix products and convolutions in bfloat16 or float16.
void set_precision(const std::string& precision);

/// Sets the algorithms of libtorch. If `on` is true, libtorch uses deterministic algorithms, so that two runs have
/// equal bits; an operation without a deterministic algorithm throws. If `on` is false, cuDNN tries its algorithms at
/// the first step of each tensor shape, and selects the fastest.
void set_deterministic(bool on);

/// Returns the type for an AutocastScope with this precision. No value for "fp32" and "tf32", which need no
/// AutocastScope.
[[nodiscard]] std::optional<c10::ScalarType> autocast_type(const std::string& precision);

}  // namespace mn::app
