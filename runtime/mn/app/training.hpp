/// A training program from its model, its loss and its samples.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <mn/app/setup.hpp>
#include <mn/checkpoint/safetensors.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/core/options.hpp>
#include <mn/loader/iterator.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/trainer/evaluator.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::app {

/// An extension that is to be added to the trainer.
struct ExtensionToAdd {
  std::unique_ptr<Extension> extension;  ///< not null
  ExtendOptions options = {};            ///< for Trainer::extend()
};

/// What a job trains, on what. Its model, its minibatches and its loss suffice.
struct Training {
  std::shared_ptr<torch::nn::Module> model;           ///< on the CPU; it goes to the device of --device
  std::shared_ptr<Iterator> train = {};               ///< minibatches, as train_batches() makes them
  std::shared_ptr<Iterator> validation = {};          ///< null: no validation
  ComputeLoss loss = {};                              ///< runs with the autocast of --precision
  EvaluateBatch evaluate = {};                        ///< likewise; empty: `loss`, with the metrics that it reports
  double rate = 0;                                    ///< learning rate; 0: --lr, or one that suits the optimizer
  Interval report_every = {1, IntervalUnit::kEpoch};  ///< when it validates and reports
  std::string metric = "accuracy";              ///< what table and plot show beside the loss, if `loss` reports it
  std::vector<std::string> banner = {};         ///< lines of the job's own
  std::vector<ExtensionToAdd> extensions = {};  ///< see extend()
  /// Names of buffers that are averaged over the ranks beside running statistics; see average_buffers().
  std::vector<std::string> averaged_buffers = {};
  /// What OUT/model.safetensors and checkpoints say beside weights, such as the network's form: load_metadata() returns
  /// it. A checkpoint that says something else is not resumed.
  Metadata metadata = {};
  /// Runs instead of training if given, with the model on its device and --initmodel loaded; collective if it likes.
  /// Its result is the exit status.
  std::function<int()> instead = {};

  /// Adds an extension of the job's own to the trainer to be, and returns it: it lives as long as `loss` is called.
  template <class E>
  E& extend(std::unique_ptr<E> extension, ExtendOptions options = {}) {
    E& added = *extension;
    extensions.push_back({std::move(extension), std::move(options)});
    return added;
  }
};

/// Makes the parts of a training once the options are known. Collective. The random numbers of libtorch are seeded with
/// --seed and the rank, and rank 0's parameters go to all ranks.
using Build = std::function<Training(const std::shared_ptr<Communicator>& comm)>;

/// main() for training programs: declares the common options beside those that `options` has, parses them, starts the
/// job as run_job() does, calls `build`, and trains, with everything that the options ask for: weights to begin with,
/// resume, reports, checkpoints, early stop, … Running statistics of the model (batch normalization's) are averaged
/// over the ranks before they are validated or saved. Returns the exit status: 0, kExitRequeue after a checkpoint that
/// a signal asked for, or run_job()'s for an exception.
///
///   int main(int argc, char** argv) {
///     mn::app::CommonOptions common;
///     mn::Options options("usage: job [options]\nTrains a network.");
///     return mn::app::run_training(argc, argv, options, common, [&](const auto& comm) { return mn::app::Training{…};
///     });
///   }
[[nodiscard]] int run_training(int argc, char** argv, Options& options, CommonOptions& common, const Build& build);

}  // namespace mn::app
