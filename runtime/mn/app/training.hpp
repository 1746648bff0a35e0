/// Defines run_training(). It does the work of main() for a training program that only has a model, a loss and samples.
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
#include <mn/sharding/shard_options.hpp>
#include <mn/sharding/sharded_construction.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/trainer/evaluator.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::app {

/// An extension of the job, which run_training() adds to the trainer.
struct ExtensionToAdd {
  std::unique_ptr<Extension> extension;  ///< not null
  ExtendOptions options = {};            ///< passed to Trainer::extend()
};

/// Describes a training job. A job needs a model, minibatches and a loss; all other members are optional.
struct Training {
  std::shared_ptr<torch::nn::Module> model;   ///< from make_model(); run_training() moves it to --device
  std::shared_ptr<Iterator> train = {};       ///< minibatches, as train_batches() makes them
  std::shared_ptr<Iterator> validation = {};  ///< null: no validation, unless there are `validations`
  /// Several validation sets, as validation_sets() makes them. Each set has its own values in the log. The table, the
  /// plot and "--monitor validation/main/…" show values of `validation` or, if `validation` is null, of the first of
  /// these sets.
  std::vector<ValidationSet> validations = {};
  ComputeLoss loss = {};                              ///< runs with the autocast of --precision
  EvaluateBatch evaluate = {};                        ///< runs with the same autocast; empty: `loss` evaluates
  double rate = 0;                                    ///< learning rate; 0: the value of --lr, or default_rate()
  Interval report_every = {1, IntervalUnit::kEpoch};  ///< period of validations and reports
  std::string metric = "accuracy";                    ///< metric of `loss` that table and plot show beside the loss
  std::string unit = "samples";                       ///< unit of the speed: "images", "tokens", …
  double units_per_sample = 1;                        ///< units in a sample, for example the number of tokens
  /// Adds values that follow from others to each entry of OUT/log, on every rank; empty: adds none.
  extensions::LogReport::Derive derive = {};
  std::vector<std::string> banner = {};         ///< lines that the job prints above the table
  std::vector<ExtensionToAdd> extensions = {};  ///< extensions of the job; see extend()
  /// Names of further buffers. They are averaged over the ranks together with the running statistics; see
  /// average_buffers().
  std::vector<std::string> averaged_buffers = {};
  /// Facts about the network, such as its sizes. OUT/model.safetensors and the checkpoints store these facts, and
  /// load_metadata() reads them. If a training resumes from a checkpoint with different metadata, an error is thrown.
  Metadata metadata = {};
  FileLayout layout = {};  ///< how the files of --initmodel and --evaluate differ from the model
  /// A collective function that loads the weights of --initmodel or --evaluate from `file` into the model; empty:
  /// load_model() with `layout`. --initmodel-partial does not call it.
  std::function<void(const std::string& file)> load = {};
  /// Functions that run_training() calls on every rank when the model has its final weights: after a training (they are
  /// averages, if there are averages), or once --evaluate has loaded them. `finish` may change the weights, and is
  /// called before OUT/model.safetensors is written, `save` afterwards. The parameters may be in pieces, which
  /// save_model() takes.
  /// @{
  std::function<void()> finish = {};
  std::function<void()> save = {};
  /// @}
  bool writes_model = true;  ///< a training writes OUT/model.safetensors at its end
  /// A function that run_training() calls on every rank in place of training. At the call, the model is on its device,
  /// and has the weights of --initmodel. With --shard parameters, operators of the function gather parameters, and
  /// ranks may compute different things. The function returns the exit status. If the function is empty,
  /// run_training() trains.
  std::function<int()> instead = {};

  /// Adds an extension to the list `extensions`. Returns a reference to the extension, so that `loss` can use it.
  template <class E>
  E& extend(std::unique_ptr<E> extension, ExtendOptions options = {}) {
    E& added = *extension;
    extensions.push_back({std::move(extension), std::move(options)});
    return added;
  }
};

/// Collective: returns make(), a model. With --shard parameters the model is made in pieces (construct_sharded()), so
/// that no rank needs memory for all parameters.
template <class Make>
[[nodiscard]] auto make_model(const CommonOptions& common, const std::shared_ptr<Communicator>& comm,
                              const Make& make) {
  return parse_shard(common.shard) == Shard::kParameters ? construct_sharded(comm, make) : make();
}

/// A function that makes the model, the minibatches and the loss. run_training() calls this function after parsing the
/// options. Collective. The function should make the model by make_model(). Before the call, libtorch's random numbers
/// are seeded with --seed and the rank. After the call, run_training() broadcasts rank 0's parameters.
using Build = std::function<Training(const std::shared_ptr<Communicator>& comm)>;

/// Does the work of main() for training programs: adds the common options to `options`, parses the command line, starts
/// the job as run_job() does, calls `build`, and trains as the options say (initial weights, resume, reports,
/// checkpoints, early stop, …). The model's running statistics (batch normalization) are averaged over the ranks before
/// each validation, before each checkpoint of a fixed period, and before the final weights are written. Returns the
/// exit status: 0 after success, kExitRequeue after a signal and a checkpoint, or run_job()'s status for an exception.
///
///   int main(int argc, char** argv) {
///     mn::app::CommonOptions common;
///     mn::Options options("usage: job [options]\nTrains a network.");
///     return mn::app::run_training(argc, argv, options, common,
///                                  [&](const auto& comm) { return mn::app::Training{…}; });
///   }
[[nodiscard]] int run_training(int argc, char** argv, Options& options, CommonOptions& common, const Build& build);

}  // namespace mn::app
