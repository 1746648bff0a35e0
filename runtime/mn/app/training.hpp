/// run_training(): main() of a training program that has only a model, a loss and samples.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <mn/app/batches.hpp>
#include <mn/app/setup.hpp>
#include <mn/checkpoint/safetensors.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/core/options.hpp>
#include <mn/loader/iterator.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/trainer/evaluator.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::app {

/// An extension for the trainer, with the options of Trainer::extend().
struct ExtensionToAdd {
  std::unique_ptr<Extension> extension;  ///< not null
  ExtendOptions options = {};            ///< for Trainer::extend()
};

/// Model, minibatches and loss of a job; all other members are optional.
struct Training {
  std::shared_ptr<torch::nn::Module> model;   ///< on the CPU; run_training() moves it to --device
  std::shared_ptr<Iterator> train = {};       ///< minibatches, as train_batches() makes them
  std::shared_ptr<Iterator> validation = {};  ///< null: no validation, unless there are `validations`
  /// Several validation sets, each with values of its own in the log, as validation_sets() makes them. The table, the
  /// plot and --monitor validation/main/… refer to `validation`, or to the first of these sets if `validation` is null.
  std::vector<ValidationSet> validations = {};
  ComputeLoss loss = {};                              ///< runs with the autocast of --precision
  EvaluateBatch evaluate = {};                        ///< runs with the same autocast; empty: `loss` evaluates
  double rate = 0;                                    ///< learning rate; 0: --lr, or default_rate()
  Interval report_every = {1, IntervalUnit::kEpoch};  ///< period of validations and reports
  std::string metric = "accuracy";                    ///< metric of `loss` that table and plot show beside the loss
  std::string unit = "samples";                       ///< unit of the speed: "images", "tokens", …
  double units_per_sample = 1;                        ///< units in a sample, for example the number of tokens
  std::vector<std::string> banner = {};               ///< lines that the job prints above the table
  std::vector<ExtensionToAdd> extensions = {};        ///< extensions of the job; see extend()
  /// Names of buffers to average over the ranks in addition to running statistics; see average_buffers().
  std::vector<std::string> averaged_buffers = {};
  /// Facts about the network, such as its sizes, for OUT/model.safetensors and checkpoints; load_metadata() returns
  /// them. If a checkpoint has different metadata, a resume from it throws.
  Metadata metadata = {};
  /// If not empty, run_training() calls this function on every rank instead of training. The model is then on its
  /// device, with the weights of --initmodel. The function returns the exit status.
  std::function<int()> instead = {};

  /// Adds an extension of the job to the trainer that run_training() will make. Returns the extension, so that `loss`
  /// can use it.
  template <class E>
  E& extend(std::unique_ptr<E> extension, ExtendOptions options = {}) {
    E& added = *extension;
    extensions.push_back({std::move(extension), std::move(options)});
    return added;
  }
};

/// Makes model, minibatches and loss; called after the options are parsed. Collective. libtorch's random numbers are
/// seeded with --seed and the rank. Later run_training() broadcasts rank 0's parameters.
using Build = std::function<Training(const std::shared_ptr<Communicator>& comm)>;

/// Does the work of main() for training programs: adds the common options to `options`, parses the command line, starts
/// the job as run_job() does, calls `build`, and trains as the options say (initial weights, resume, reports,
/// checkpoints, early stop, …). The model's running statistics (batch normalization) are averaged over the ranks before
/// each validation and save. Returns the exit status: 0 after success, kExitRequeue after a signal and a checkpoint, or
/// run_job()'s status for an exception.
///
///   int main(int argc, char** argv) {
///     mn::app::CommonOptions common;
///     mn::Options options("usage: job [options]\nTrains a network.");
///     return mn::app::run_training(argc, argv, options, common, [&](const auto& comm) { return mn::app::Training{…};
///     });
///   }
[[nodiscard]] int run_training(int argc, char** argv, Options& options, CommonOptions& common, const Build& build);

}  // namespace mn::app
