/// The common options of all training jobs.
#pragma once

#include <cstdint>
#include <string>

#include <mn/app/update.hpp>
#include <mn/trainer/optimizer.hpp>

namespace mn::app {

inline constexpr std::int64_t kMaxSamples = 1 << 20;  ///< most samples of a minibatch on one rank

/// Value of --checkpoint-every: writes checkpoints as often as possible, but training waits for them during at most a
/// hundredth of the time.
inline constexpr const char* kContinuousCheckpoints = "auto";

/// Value of --precision: weights and their gradients are in bfloat16, and the optimizer keeps float32 masters of the
/// weights.
inline constexpr const char* kNarrowWeights = "bf16-parameters";

/// The options that every job has (--help shows them). A job with more options derives from this class, and may set
/// other defaults.
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
  std::string precision = "fp32";       ///< tf32, bf16, fp16, kNarrowWeights
  std::string cuda_graph = "off";       ///< TrainerOptions::cuda_graph; on, auto
  bool deterministic = false;           ///< two equal runs give equal bits
  std::string checkpoint_every = "1e";  ///< Interval::parse, kContinuousCheckpoints or "none"
  std::int64_t keep = 3;                ///< number of newest checkpoints to keep
  std::string val_every;                ///< period of validations (Interval::parse); empty: with each report
  std::string overlap = "auto";         ///< on, off
  std::int64_t overlap_ctas = 0;        ///< NcclLimits::max_ctas for reductions during backward
  bool double_buffering = false;        ///< OptimizerOptions::double_buffering
  std::string shard = "none";           ///< OptimizerOptions::shard: optimizer, gradients, parameters
  std::string shard_group = "all";      ///< ShardOptions::group: node, or a number of ranks
  std::string offload = "none";         ///< for parse_offload()
  std::string compress = "none";        ///< a name for parse_compression()
  double compress_density = CompressionOptions().density;               ///< density of topk
  std::int64_t compress_rank = CompressionOptions().rank;               ///< rank of powersgd
  std::int64_t local_steps = 1;                                         ///< OptimizerOptions::local_steps
  std::int64_t check_parameters = OptimizerOptions().check_parameters;  ///< updates between parameter checks; 0: never
  double outer_momentum = 0;                                            ///< OptimizerOptions::outer_momentum
  std::string hang = "abort";                    ///< action for a rank without progress; report, off
  bool profile = false;                          ///< write profile.jsonl and trace.json
  bool show_memory = false;                      ///< print the account of memory after the first update
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
  bool one_batch = false;                        ///< make one update and validate one minibatch, as a trial
};

/// True if training depends on the value that --monitor names.
[[nodiscard]] inline bool uses_monitor(const CommonOptions& common) {
  return common.keep_best || common.early_stop > 0 || common.schedule == "plateau";
}

}  // namespace mn::app
