/// The training loop: minibatch → loss → gradients → multi-node update, with extensions that run when their triggers
/// fire.
///
///   auto optimizer = mn::create_multi_node_optimizer(
///       std::make_unique<torch::optim::SGD>(net->parameters(), 0.1), comm);
///   const auto loss = [net](const mn::Batch& batch, mn::Summary&) {
///     return torch::nn::functional::cross_entropy(net->forward(batch.data), batch.target);
///   };
///   mn::Trainer trainer(comm, std::move(optimizer), iterator, net, loss, {.epochs = 20, .out = "result"});
///   trainer.extend(std::make_unique<mn::extensions::LogReport>());
///   trainer.extend(std::make_unique<mn::extensions::Snapshot>());
///   trainer.resume("auto");  // goes on from the newest checkpoint in result/, if there is one
///   return trainer.run();
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/loader/iterator.hpp>
#include <mn/trainer/checkpointer.hpp>
#include <mn/trainer/extension.hpp>
#include <mn/trainer/loss.hpp>
#include <mn/trainer/optimizer.hpp>
#include <mn/trainer/summary.hpp>
#include <mn/trainer/trainer_options.hpp>

namespace mn {

class ExtensionList;
class Observation;
class OutputFolder;
class PeriodicAgreement;
class RunStatus;
class SignalFlag;
class StragglerWatch;
class TimeLimit;
class TrainingStep;
struct StepProgram;

/// How long a step took on a rank, in three parts. The sum of the parts is the time of the step without extensions.
struct StepTimes {
  double data_s = 0;           ///< seconds of waiting for the minibatch
  double compute_s = 0;        ///< seconds of forward, backward, hooks and update
  double communication_s = 0;  ///< seconds of exposed communication: waits for the network and for slower ranks
  std::uint64_t bytes = 0;     ///< bytes passed to collective calls
};

/// Trains a model with a multi-node optimizer. If the loss function makes collective calls (mn::all_gather(),
/// MultiNodeBatchNorm), the gradients are exact, whatever the weights of the minibatches. The constructor, extend(),
/// run(), save(), resume(), finish_steps(), take_observation(), observed_names() and report() are collective: all ranks
/// must make the same calls in the same order. If a trigger counts seconds, rank 0's clock decides for all ranks when
/// it fires.
class Trainer {
 public:
  /// Broadcasts rank 0's parameters and buffers, including parameters without an optimizer. Throws ArgumentError if an
  /// argument is null. Throws the same UsageError on every rank if the options set no limit; if the folder `out` is not
  /// writable, is full, or is in use by another job; or if the iterator does not fit these ranks, because its dataset
  /// was not scattered or ranks have different numbers of steps.
  Trainer(std::shared_ptr<Communicator> comm, std::shared_ptr<MultiNodeOptimizer> optimizer,
          std::shared_ptr<Iterator> iterator, std::shared_ptr<torch::nn::Module> model, ComputeLoss compute_loss,
          TrainerOptions options);
  /// For several optimizers, for example of a generator and a critic. In this example, the backward pass of the
  /// generator's loss goes through the critic, and makes gradients of the critic, too. Therefore hold no_sync() of the
  /// critic's optimizer during this backward pass, and afterwards call zero_grad() of the critic's optimizer. Throws as
  /// the constructor above does, and also throws UsageError if TrainerOptions::accumulate is not 1.
  Trainer(std::shared_ptr<Communicator> comm, std::vector<NamedOptimizer> optimizers,
          std::shared_ptr<Iterator> iterator, std::shared_ptr<torch::nn::Module> model, UpdateParameters update,
          TrainerOptions options);
  ~Trainer();
  Trainer(const Trainer&) = delete;             ///< not copyable
  Trainer& operator=(const Trainer&) = delete;  ///< not copyable

  /// Adds an extension, which the trainer then owns, and returns a reference to it. Throws ArgumentError if another
  /// extension has the same name.
  template <class E>
  E& extend(std::unique_ptr<E> extension, ExtendOptions options = {}) {
    E& added = *extension;
    add(std::move(extension), std::move(options));
    return added;
  }
  /// Adds a function, such as a learning-rate schedule, as an extension without state. Unless the trigger fires in each
  /// iteration, the function may take long (Duration::kLong), as a validation on rank 0 does.
  void extend(const std::string& name, Interval trigger, std::function<void(Trainer&)> function);

  /// Trains until a limit is reached or stop() is called, and returns 0. If a signal or the time limit ends training,
  /// run() writes a checkpoint to `out` and returns kExitRequeue, the exit status for the program. When run() returns,
  /// all files of rank 0 are complete. Throws SaveError at the end if the last checkpoint can't be written. Puts the
  /// model into training mode if it is in evaluation mode; single modules in evaluation mode (frozen batch
  /// normalization) are left alone.
  [[nodiscard]] int run();
  /// For extensions: ends training after this iteration, as a limit does. Every rank must call stop() in the same
  /// iteration; if only one rank knows the reason, broadcast it first. Rank 0 logs `why`. Call stop() from an extension
  /// with a priority above kPriorityReport; the extensions that read the log then still get the last report.
  void stop(const std::string& why);

  /// For Extension::initialize() after a resume. True if run() of `extension` was due in the iteration of the
  /// checkpoint, but had not begun when the checkpoint was written.
  [[nodiscard]] bool is_pending(const Extension& extension) const;

  /// Returns why training has ended: a limit, a signal, or the text that was passed to stop(). Empty while training
  /// goes on.
  [[nodiscard]] std::string end_reason() const;

  /// Writes a checkpoint to `path` while training waits. See Checkpointer::save().
  void save(const std::filesystem::path& path) { checkpointer_->save(path); }
  /// Returns the object that writes checkpoints, while training waits or in the background.
  [[nodiscard]] Checkpointer& checkpointer() const noexcept { return *checkpointer_; }
  /// Restores a checkpoint of any number of ranks: parameters, buffers, optimizer, learning rate, random numbers,
  /// iterator, counters and extensions. `from` is a path that save() wrote, or "auto". "auto" means the newest
  /// undamaged checkpoint in `out`. Returns false if "auto" finds no checkpoint; training then starts at the beginning.
  /// Throws the same DataError on every rank if the checkpoint is absent or damaged, or does not fit the model or the
  /// optimizer; if "auto" finds only damaged checkpoints; and if the storage fails. If the program has changed a
  /// setting of the optimizer, such as the momentum, since the checkpoint, the program's value is used, and the log
  /// says so. If the old and the new program began with the same frozen parameters (requires_grad), the parameters that
  /// were frozen at the checkpoint are frozen again. Otherwise the parameters stay as the new program has frozen them.
  bool resume(const std::string& from);
  /// Returns, as an absolute path, the path that was given to resume(). Empty after resume("auto"), and if the training
  /// did not resume.
  [[nodiscard]] const std::filesystem::path& resumed_from() const noexcept { return resumed_from_; }

  /// For an extension whose run() works in parts (Duration::kInParts). Returns a function; run() must call it with
  /// false before each part, and with true after the last part. Each call is collective, but ranks may have different
  /// numbers of parts. The function lets a save in the background go on. If a signal or the time limit asks for the end
  /// of training, the function throws Interrupted on all ranks; run() must then leave no effects of the parts so far.
  [[nodiscard]] std::function<void(bool is_done)> pauses();

  /// For extensions. Collective: calls average_kept_statistics() of all extensions.
  void average_kept_statistics();

  /// For extensions that read the parameters. Completes all steps: applies delayed updates of the optimizer, and waits
  /// for this rank's device. The wait counts as training time.
  void finish_steps();
  /// Returns the observations since the previous call, and forgets them. They are means over all ranks' samples
  /// ("main/…"), reported values, "images_per_second" (over all ranks, without the time of extensions), and
  /// "bytes_per_step" (bytes of gradients or parameters that this rank has passed to collective calls). Only LogReport
  /// may call this function, because each call forgets the observations.
  [[nodiscard]] Metrics take_observation();
  /// Returns the names of all values that any rank has observed since the last take_observation().
  [[nodiscard]] std::vector<std::string> observed_names();
  /// Adds a value to the report of this iteration. The value must be the same on all ranks; the result of an evaluator
  /// is. If a value of this name was already reported in this iteration, the new value replaces it. The value is in the
  /// log's entry of this iteration even if the log has already run.
  void report(const std::string& name, double value);
  /// Adds a value, which must be equal on all ranks. The next report has, under `name`, the mean of all such values
  /// since the last report.
  void report_mean(const std::string& name, double value);

  /// Returns the communicator of the ranks that train together.
  [[nodiscard]] Communicator& communicator() const noexcept { return *comm_; }
  /// True on rank 0, which writes files and prints.
  [[nodiscard]] bool is_root() const noexcept { return comm_->rank() == 0; }
  /// Returns the first optimizer.
  [[nodiscard]] MultiNodeOptimizer& optimizer() const noexcept { return *optimizers_.front().optimizer; }
  /// Returns the optimizer named `name`. If there is none, throws an ArgumentError that lists the names of all
  /// optimizers.
  [[nodiscard]] MultiNodeOptimizer& optimizer(const std::string& name) const;
  /// Returns all optimizers. A single optimizer is named "main".
  [[nodiscard]] const std::vector<NamedOptimizer>& optimizers() const noexcept { return optimizers_; }
  /// Returns the learning rate that parameter group `group` had when the trainer was made, even if schedules or
  /// resume() have changed the rate since. `name` names the optimizer; if `name` is empty, the first optimizer is
  /// meant. Returns no value for groups that were added later, and for optimizers that are neither libtorch's nor mn's.
  [[nodiscard]] std::optional<double> initial_rate(std::size_t group, const std::string& name = "") const;
  /// The iterator over the training data.
  [[nodiscard]] Iterator& iterator() const noexcept { return *iterator_; }
  /// The model that is trained.
  [[nodiscard]] torch::nn::Module& model() const noexcept { return *model_; }
  /// Returns the options of the constructor. Their member `out` has become an absolute path.
  [[nodiscard]] const TrainerOptions& options() const noexcept { return options_; }
  /// Returns this rank's times in the last iteration, by the host's clock. On a GPU, they include the GPU's work only
  /// if there is a trace, because otherwise the host does not wait for the GPU. The times of times() always include the
  /// GPU's work.
  [[nodiscard]] const StepTimes& last_step() const noexcept { return last_step_; }
  /// Returns the sums of this rank's times over all iterations of this process. On a GPU, the call waits for the device
  /// and returns times by the device's clock; therefore call it only for reports. Steps of a CUDA graph count as
  /// computing.
  [[nodiscard]] StepTimes times() const;
  /// Returns how long extensions have taken on this rank, in all iterations of this process together.
  [[nodiscard]] ExtensionTimes extension_times() const;
  /// Returns how many seconds are left until the last checkpoint before the job's time limit must begin. Returns no
  /// value if there is no limit, on all ranks except rank 0, and without TrainerOptions::checkpoint_on_signal.
  [[nodiscard]] std::optional<double> time_left_s() const;
  /// Returns the folder for all output, as an absolute path.
  [[nodiscard]] const std::filesystem::path& out() const noexcept { return options_.out; }
  /// Returns how many iterations are completed, including those before a resume. Each iteration has one update.
  [[nodiscard]] std::int64_t iteration() const noexcept;
  /// Returns how many iterations an epoch has. This is the number of the iterator's steps, or fewer with
  /// TrainerOptions::accumulate.
  [[nodiscard]] std::int64_t iterations_per_epoch() const;
  /// Returns how many epochs are completed, including those before a resume.
  [[nodiscard]] std::int64_t epoch() const noexcept;
  /// Returns how many epochs are completed, plus the completed fraction of the current epoch.
  [[nodiscard]] double epoch_detail() const noexcept;
  /// Returns how many seconds the training has taken: since run() began, plus the time of training before a resume.
  [[nodiscard]] double elapsed_s() const;
  /// Returns which fraction of the whole training is done, from 0 to 1.
  [[nodiscard]] double progress() const noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::int64_t kNoReason = 0;      // value of end_reason_ while training goes on
  static constexpr std::int64_t kTimeLimit = 1000;  // end_reason_ at the time limit; a signal has its number

  Trainer(std::shared_ptr<Communicator> comm, std::vector<NamedOptimizer> optimizers,
          std::shared_ptr<Iterator> iterator, std::shared_ptr<torch::nn::Module> model, StepProgram program,
          TrainerOptions options);

  void add(std::unique_ptr<Extension> extension, ExtendOptions options);
  [[nodiscard]] std::size_t index_of(const std::string& optimizer) const;
  void check_arguments(const StepProgram& program) const;
  void prepare_out();
  void check_iterator() const;
  void check_order() const;
  void make_parts(StepProgram program);
  void wait_for_losses();
  [[nodiscard]] double communication_s() const;

  void begin_run();
  [[nodiscard]] bool is_over() const noexcept;
  void advance();
  [[nodiscard]] Batch next_batch();
  void end_epoch();
  void synchronize();
  void run_extensions();
  [[nodiscard]] std::int64_t own_end_reason();
  [[nodiscard]] std::int64_t agree(std::int64_t own_reason);
  [[nodiscard]] bool agree_on_parts(PeriodicAgreement& agreement, std::int64_t parts, bool is_done);
  void checkpoint_to_requeue();

  std::shared_ptr<Communicator> comm_;
  std::vector<NamedOptimizer> optimizers_;
  std::shared_ptr<Iterator> iterator_;
  std::shared_ptr<torch::nn::Module> model_;
  TrainerOptions options_;
  std::unique_ptr<OutputFolder> folder_;  // on rank 0
  std::unique_ptr<ExtensionList> extensions_;
  std::unique_ptr<Observation> observation_;
  std::weak_ptr<const Observation> rest_;  // during at_end(): observations to keep
  std::unique_ptr<PeriodicAgreement> agreement_;
  std::unique_ptr<TimeLimit> time_limit_;  // on rank 0, with TrainerOptions::checkpoint_on_signal
  std::unique_ptr<RunStatus> status_;
  std::unique_ptr<StragglerWatch> stragglers_;
  std::unique_ptr<TrainingParts> parts_;
  std::unique_ptr<Checkpointer> checkpointer_;  // after extensions_, because its thread calls them
  std::unique_ptr<TrainingStep> step_;

  std::filesystem::path resumed_from_;
  double previous_epoch_detail_ = 0;
  StepTimes last_step_;
  StepTimes all_steps_;                // sum of last_step_ over all steps
  std::unique_ptr<DeviceTimer> work_;  // times steps without the wait for data; null on CPUs and with a trace
  bool is_stopped_ = false;
  std::int64_t end_reason_ = 0;  // why this run ends early: a signal's number or kTimeLimit; 0: the run goes on
  std::weak_ptr<const SignalFlag> signal_;  // while run() runs
  std::string end_text_;                    // the text of stop(), or a text about a signal or the time limit
};

}  // namespace mn
