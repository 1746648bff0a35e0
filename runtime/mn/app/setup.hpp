/// What all training jobs have in common: their options, and what follows from them before training.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <mn/app/update.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/core/metric.hpp>
#include <mn/core/options.hpp>
#include <mn/trainer/optimizer.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::app {

inline constexpr std::int64_t kMaxSamples = 1 << 20;  ///< samples of a minibatch on one rank

/// --checkpoint-every: as often as costs little.
inline constexpr const char* kContinuousCheckpoints = "auto";

/// The options that every job has, as --help describes them. A job derives from it where it keeps its own beside them,
/// and may give other defaults.
struct CommonOptions : UpdateOptions {
  std::int64_t batchsize = 100;                            ///< samples of a minibatch on each rank
  std::int64_t accumulate = 1;                             ///< minibatches of an update
  std::int64_t epoch = 20;                                 ///< passes over the training data
  std::int64_t iterations = 0;                             ///< updates after which training ends; 0: after the epochs
  std::string communicator = "auto";                       ///< a name that create_communicator() takes
  std::string device = "auto";                             ///< cpu, cuda, cuda:K
  std::string stage;                                       ///< folder on each node for copies of shards; empty: none
  std::int64_t stage_rate = 256;                           ///< MiB a second that a node copies; 0: no limit
  std::int64_t stage_budget = 0;                           ///< GiB of copies of a dataset; 0: as the disk has room
  std::string out = "result";                              ///< folder for everything that is written
  std::string resume;                                      ///< a checkpoint or "auto"; empty: start from the beginning
  std::int64_t seed = 0;                                   ///< seed of the parameters and of the order of samples
  std::string precision = "fp32";                          ///< tf32, bf16, fp16
  bool cuda_graph = false;                                 ///< TrainerOptions::cuda_graph
  bool deterministic = false;                              ///< the same bits from run to run
  std::string checkpoint_every = "1e";                     ///< Interval::parse, kContinuousCheckpoints or "none"
  std::int64_t keep = 3;                                   ///< checkpoints, the newest
  std::string val_every;                                   ///< Interval::parse; empty: with each report
  std::string overlap = "auto";                            ///< on, off
  bool double_buffering = false;                           ///< OptimizerOptions::double_buffering
  std::string compress = "none";                           ///< a name that parse_compression takes
  double compress_density = CompressionOptions().density;  ///< density of topk
  std::int64_t compress_rank = CompressionOptions().rank;  ///< rank of powersgd
  std::int64_t local_steps = 1;                            ///< OptimizerOptions::local_steps
  std::int64_t check_parameters = OptimizerOptions().check_parameters;  ///< updates between comparisons; 0: never
  double outer_momentum = 0;                                            ///< OptimizerOptions::outer_momentum
  std::string hang = "abort";                    ///< what a rank without progress leads to: report, off
  bool profile = false;                          ///< write profile.jsonl and trace.json
  bool tensorboard = false;                      ///< write event files for TensorBoard
  double clip_norm = 0;                          ///< 0: gradients are not clipped
  double ema = 0;                                ///< 0: weights are not averaged
  std::string monitor = "validation/main/loss";  ///< a value of the log
  std::string monitor_better = "auto";           ///< lower, higher; auto: by the name of the value
  std::int64_t early_stop = 0;                   ///< reports; 0: training does not end early
  bool keep_best = false;                        ///< keep the checkpoint of the best report
  std::string initmodel;                         ///< a file; empty: random weights
  bool initmodel_partial = false;                ///< take those weights of it that fit
  std::string evaluate;                          ///< a file, whose weights are validated; empty: train
  bool one_batch = false;                        ///< one update and one minibatch of validation
};

/// Whether something in training depends on --monitor.
[[nodiscard]] inline bool uses_monitor(const CommonOptions& common) {
  return common.keep_best || common.early_stop > 0 || common.schedule == "plateau";
}

/// Which values of --monitor are better. Throws UsageError if neither --monitor-better nor the name says so.
[[nodiscard]] Better monitored_direction(const CommonOptions& common);

/// Declares them; the values in `common` are the defaults.
void add_common_options(Options& options, CommonOptions& common);

/// Options::parse; prints help or versions on rank 0. False if that was all that was asked for.
[[nodiscard]] bool parse_options(Options& options, int argc, const char* const* argv, int rank);

/// Collective: checks what can be checked now; the communicator on the device asked for; sets precision, determinism
/// and this rank's random seed.
[[nodiscard]] std::shared_ptr<Communicator> set_up(const CommonOptions& common);

/// How the ranks train together; --overlap auto leaves that decision to the optimizer. The trace (null without
/// --profile) is for the trainer too.
[[nodiscard]] OptimizerOptions optimizer_options(const CommonOptions& common);

/// Collective: the optimizer of --optimizer, made with `rate`, as a multi-node optimizer that clips if --clip-norm
/// asks.
[[nodiscard]] std::shared_ptr<MultiNodeOptimizer> create_optimizer(const CommonOptions& common, double rate,
                                                                   const torch::nn::Module& model,
                                                                   const std::shared_ptr<Communicator>& comm,
                                                                   const OptimizerOptions& how);

/// How long to train and where to write.
[[nodiscard]] TrainerOptions trainer_options(const CommonOptions& common, const OptimizerOptions& how);

}  // namespace mn::app
