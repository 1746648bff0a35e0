/// The training loop: minibatch → loss → gradients → multi-node update, with extensions that run by triggers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <mn/comm/communicator.hpp>
#include <mn/loader/iterator.hpp>
#include <mn/trainer/collective_use.hpp>
#include <mn/trainer/extension.hpp>
#include <mn/trainer/loss.hpp>
#include <mn/trainer/optimizer.hpp>
#include <mn/trainer/summary.hpp>
#include <mn/trainer/times.hpp>
#include <mn/trainer/trainer_options.hpp>

namespace torch::nn {
class Module;
}

namespace mn {

struct Checkpoint;
class BackgroundSave;
class CheckpointReader;
class ExtensionList;
class GraphedStep;
class Observation;
class OutputFolder;
class PeriodicAgreement;
class RunStatus;
class SaveError;
class SignalFlag;
class StragglerWatch;
class TimeLimit;

/// Trains a model with a multi-node optimizer. A loss that calls other ranks (mn::all_gather(), MultiNodeBatchNorm)
/// gets exact gradients, whatever minibatches weigh. The constructor, extend(), run(), save(), resume(),
/// finish_steps(), take_observation() and report() are collective: every rank makes the same calls in the same order.
/// Rank 0's clock decides for triggers of seconds, so the ranks' extensions run together.
class Trainer {
 public:
  /// Broadcasts rank 0's parameters and buffers, also those that the optimizer does not hold. Throws ArgumentError if
  /// an argument is null, and the same UsageError on every rank if there is no limit, if `out` can't be written, is
  /// full or in use by another job, or if the iterator is not for these ranks: of a dataset that was not scattered, or
  /// with another number of steps on one.
  Trainer(std::shared_ptr<Communicator> comm, std::shared_ptr<MultiNodeOptimizer> optimizer,
          std::shared_ptr<Iterator> iterator, std::shared_ptr<torch::nn::Module> model, ComputeLoss compute_loss,
          TrainerOptions options);
  /// For several optimizers, such as those of two networks that train each other. Where the backward of one's loss
  /// passes through the other's parameters, it also makes gradients there: hold no_sync() of that optimizer meanwhile,
  /// and call its zero_grad() afterwards. Throws likewise, and if TrainerOptions::accumulate is not 1.
  Trainer(std::shared_ptr<Communicator> comm, std::vector<NamedOptimizer> optimizers,
          std::shared_ptr<Iterator> iterator, std::shared_ptr<torch::nn::Module> model, UpdateParameters update,
          TrainerOptions options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Adds an extension, which lives as long as the trainer, and returns it. Throws ArgumentError if the name is in use.
  template <class E>
  E& extend(std::unique_ptr<E> extension, ExtendOptions options = {}) {
    E& added = *extension;
    add(std::move(extension), std::move(options));
    return added;
  }
  /// The same for a function without state, such as a learning-rate schedule. What does not run in each iteration may
  /// take long (Duration::kLong), such as a validation on rank 0.
  void extend(const std::string& name, Interval trigger, std::function<void(Trainer&)> function);

  /// Trains until a limit is reached or stop() is called. Returns 0, or kExitRequeue if a signal ended it; then a
  /// checkpoint is in `out`, and the program returns that status. When it returns, every file that rank 0 wrote is
  /// complete. Throws SaveError, once all else is done, if the last checkpoint can't be written. A model in evaluation
  /// mode is put into training mode; modules of it that are in evaluation mode by themselves (frozen batch
  /// normalization) stay so.
  [[nodiscard]] int run();
  /// For extensions: training ends after this iteration, as at a limit. Every rank calls it in the same iteration; what
  /// one rank alone knows it must broadcast first. `why` is logged on rank 0. Call it from a priority above
  /// kPriorityReport: the report at the end comes too late for readers of the log that have run in that iteration.
  void stop(const std::string& why);

  /// For Extension::initialize(): whether run() is still to be called in the iteration in which the checkpoint was
  /// written.
  [[nodiscard]] bool is_pending(const Extension& extension) const;

  /// Why training has ended: the limit, what stop() was told, or a signal; empty while it goes on.
  [[nodiscard]] std::string end_reason() const;

  /// Writes a checkpoint, each rank its part; when the call returns, it is complete. Throws the same DataError on every
  /// rank, and writes nothing if a parameter that trains has become infinite or NaN, or another tensor of the model
  /// NaN: earlier checkpoints remain the good ones. SaveError, a DataError, means that it could not be written.
  void save(const std::filesystem::path& path);
  /// The same to checkpoint_path(out(), iteration()) beside training: a thread copies this rank's part while training
  /// makes the next gradients, and writes it. When the checkpoint is complete, it calls `root_committed` on rank 0,
  /// which must not throw; then, at the end of run() at the latest, every rank calls `committed` in the same iteration.
  /// A save that fails is a warning, and neither is called. Waits first for the save before. run() throws save()'s
  /// DataError.
  void save_in_background(std::function<void()> committed, std::function<void()> root_committed = {});
  /// For extensions, before the first iteration, and for programs before run(): there will be such saves. The memory
  /// that they copy to, as large as what this rank writes, is then made beside training, after the first iteration.
  /// Without this the first save makes it, and training may wait for that.
  void expect_saves() noexcept { expects_saves_ = true; }
  /// Whether some rank is still making that memory; the same answer on all ranks. A save may begin nevertheless.
  [[nodiscard]] bool is_preparing_saves() const noexcept { return is_preparing_saves_; }
  /// Waits until that copy is complete: for who changes parameters or optimizers outside of steps and extensions.
  /// A loss function may change buffers and what no optimizer trains, such as a momentum encoder, as it likes: that is
  /// copied before the next loss. It may change what an optimizer trains by operators in place, as Embedding's max_norm
  /// does. Only where it changes that through data() or set_data() it must call this first.
  void finish_copy();
  /// Waits for what save_in_background() has begun.
  void finish_save();
  /// What saves beside training have taken so far.
  [[nodiscard]] const SavingTimes& saving_times() const noexcept { return saving_times_; }
  /// Whether save_in_background() has begun a save that is not complete.
  [[nodiscard]] bool is_saving() const noexcept;
  /// Whether this run has written checkpoint_path(out(), iteration()), is writing it, or begins there
  /// without a checkpoint of another folder.
  [[nodiscard]] bool is_saved() const noexcept { return saved_iteration_ == iteration_; }
  /// Continues from a checkpoint, also of another number of ranks: parameters, buffers, optimizer, learning rate,
  /// random numbers, iterator, counters and extensions. `from` is what save() wrote, or "auto" for the newest undamaged
  /// one in `out`. Returns false if "auto" finds none at all: training starts at the beginning. Throws the same
  /// DataError on every rank if the file is absent, damaged, or of another model or optimizer, if all that "auto" finds
  /// are damaged, and if the storage does not tell which there are. Settings of the optimizer (momentum, …) that this
  /// program gives other values than the checkpoint's did win over the checkpoint's, with a line that says so; likewise
  /// which parameters are frozen (requires_grad is false), which otherwise becomes what it was then, though extensions
  /// had changed it.
  bool resume(const std::string& from);
  /// The absolute path of the checkpoint that resume() was given; empty for "auto" and without one.
  [[nodiscard]] const std::filesystem::path& resumed_from() const noexcept { return resumed_from_; }

  /// For an extension in parts (Duration::kInParts): returns what run() calls before each part, and with true after the
  /// last. Each call is collective, though ranks may have different numbers of parts. It lets a save beside training go
  /// on, and throws Interrupted on all ranks where a signal or the time limit asks for the end; what run() has done so
  /// far must then have no effect.
  [[nodiscard]] std::function<void(bool is_done)> pauses();

  /// Completes the steps so far: applies what the optimizer holds back, and waits for this rank's device, so that the
  /// wait counts as training time. For extensions that read the parameters.
  void finish_steps();
  /// Returns and forgets what was observed since the last call: means over all ranks' samples ("main/…"), values that
  /// were reported, "images_per_second" (over all ranks, without the time of extensions), and "bytes_per_step" (passed
  /// to collectives for gradients or parameters, by this rank). For LogReport: a trainer has one reader.
  [[nodiscard]] Metrics take_observation();
  /// Collective. The names of what was observed since the last take_observation(), on any rank.
  [[nodiscard]] std::vector<std::string> observed_names();
  /// Adds a value that is the same on all ranks, such as an evaluator's; the next observation holds the latest. What an
  /// extension reports belongs to the log's entry of that iteration, also if the log has run before it.
  void report(const std::string& name, double value);

  /// The ranks that train together.
  [[nodiscard]] Communicator& communicator() const noexcept { return *comm_; }
  /// True on rank 0, which writes and prints.
  [[nodiscard]] bool is_root() const noexcept { return comm_->rank() == 0; }
  /// As given to the constructor; of several the first.
  [[nodiscard]] MultiNodeOptimizer& optimizer() const noexcept { return *optimizers_.front().optimizer; }
  /// The one of that name. Throws ArgumentError that lists the names.
  [[nodiscard]] MultiNodeOptimizer& optimizer(const std::string& name) const;
  /// All of them; one alone is called "main".
  [[nodiscard]] const std::vector<NamedOptimizer>& optimizers() const noexcept { return optimizers_; }
  /// The learning rate of a parameter group of optimizer(), or of the one named, when the trainer was made, whatever
  /// schedules and resume() have set since. No value for groups added since, and for optimizers that are neither
  /// libtorch's nor mn's.
  [[nodiscard]] std::optional<double> initial_rate(std::size_t group, const std::string& name = "") const;
  /// As given to the constructor.
  [[nodiscard]] Iterator& iterator() const noexcept { return *iterator_; }
  /// As given to the constructor.
  [[nodiscard]] torch::nn::Module& model() const noexcept { return *model_; }
  /// As given to the constructor.
  [[nodiscard]] const TrainerOptions& options() const noexcept { return options_; }
  /// The values of the last iteration, on this rank, by the host's clock. On a GPU they say what the work took only
  /// with a trace: otherwise the host goes on, and times() has them.
  [[nodiscard]] const StepTimes& last_step() const noexcept { return last_step_; }
  /// The sum over this process's iterations, on this rank. On a GPU the work's own times, for which this waits: for
  /// reports. Steps of a CUDA graph count as computing.
  [[nodiscard]] StepTimes times() const;
  /// The folder for all output.
  [[nodiscard]] const std::filesystem::path& out() const noexcept { return options_.out; }
  /// Iterations completed, those before a resume included. Each is one update of the parameters.
  [[nodiscard]] std::int64_t iteration() const noexcept { return iteration_; }
  /// Iterations of one epoch: the iterator's steps, or fewer where iterations accumulate several.
  [[nodiscard]] std::int64_t iterations_per_epoch() const;
  /// Epochs completed, those before a resume included.
  [[nodiscard]] std::int64_t epoch() const noexcept { return epoch_; }
  /// The same with the fraction of the current epoch.
  [[nodiscard]] double epoch_detail() const noexcept { return epoch_detail_; }
  /// Seconds since run() began, plus those before a resume.
  [[nodiscard]] double elapsed_s() const;
  /// The fraction of the whole training that is done, 0 … 1.
  [[nodiscard]] double progress() const noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  /// The minibatches of an iteration so far.
  struct Accumulated {
    std::int64_t samples = 0;
    double weight = 0;
  };
  /// What the loss function made of a minibatch.
  struct Forward {
    Loss loss;
    Summary metrics;
  };
  /// Tensors that each launch of graph_ writes.
  struct Recorded : Forward {
    double weight;
  };

  Trainer(std::shared_ptr<Communicator> comm, std::vector<NamedOptimizer> optimizers,
          std::shared_ptr<Iterator> iterator, std::shared_ptr<torch::nn::Module> model, ComputeLoss compute_loss,
          UpdateParameters update, TrainerOptions options);

  void add(std::unique_ptr<Extension> extension, ExtendOptions options);
  [[nodiscard]] std::size_t index_of(const std::string& optimizer) const;
  void check_optimizers() const;
  void prepare_out();
  void check_iterator() const;
  void check_order() const;
  [[nodiscard]] double communication_s() const;
  [[nodiscard]] std::uint64_t bytes_sent() const;
  void wait_for_losses();
  // trainer_run.cpp
  void begin();
  void tell_of_others() const;
  [[nodiscard]] std::int64_t own_reason();
  std::int64_t agree(std::int64_t own);
  [[nodiscard]] bool may_begin(Duration duration);
  void run_extensions();
  [[nodiscard]] bool agree_on_parts(PeriodicAgreement& agreement, std::int64_t parts, bool is_done);
  void wait_for_writer() const;
  void checkpoint_to_requeue();
  [[nodiscard]] bool finished() const noexcept;
  // trainer_step.cpp
  void advance();
  [[nodiscard]] Batch next_batch();
  [[nodiscard]] bool at_epoch_end() const;
  void train();
  void update_parameters();
  void train_on(const Batch& batch);
  void update(const Accumulated& all);
  void accumulate(const Batch& batch, Accumulated& all, bool last);
  [[nodiscard]] Forward forward(const Batch& batch);
  void observe(const Batch& batch, const Forward& made);
  void observe_update(std::int64_t samples);
  void end_epoch();
  void synchronize();
  // trainer_graph.cpp
  void prepare_graph();
  void train_by_graph();
  void record(const Batch& batch);
  // trainer_save.cpp
  [[nodiscard]] nlohmann::json replicated_state() const;
  void add_buffers(Checkpoint& checkpoint) const;
  [[nodiscard]] Checkpoint checkpoint();
  void add_tensors(Checkpoint& checkpoint) const;
  void prepare_saves();
  [[nodiscard]] std::function<std::string()> objection() const;
  [[nodiscard]] bool may_loss_change_parameters() const;
  [[noreturn]] void refuse(const std::filesystem::path& path, std::int64_t iteration, const std::string& why) const;
  void set_others_aside(std::int64_t next);
  void advance_save();
  void note_saved(double seconds);
  void warn_of_failed_save(const SaveError& error) const;
  // trainer_state.cpp
  void restore_model(CheckpointReader& checkpoint, const std::string& source);
  void restore(CheckpointReader& checkpoint);
  void restore_optimizers(CheckpointReader& checkpoint);
  void restore_optimizer(const NamedOptimizer& each, const nlohmann::json& saved, CheckpointReader& checkpoint);
  void restore_extensions(CheckpointReader& checkpoint);
  void restore_replicated(const nlohmann::json& about);
  [[nodiscard]] nlohmann::json samples_per_iteration() const;
  void restore_frozen(const nlohmann::json& saved);
  void tell_of_other_size(std::size_t ranks, const nlohmann::json& then, const nlohmann::json& now) const;
  void restore_observation(const nlohmann::json& records, bool same_ranks);
  void restart_rank(std::uint64_t seed);
  void restore_rank(const NamedTensors& tensors, const nlohmann::json& optimizers);

  static constexpr std::int64_t kNotSaved = -1;

  std::shared_ptr<Communicator> comm_;
  std::vector<NamedOptimizer> optimizers_;
  std::shared_ptr<Iterator> iterator_;
  std::shared_ptr<torch::nn::Module> model_;
  ComputeLoss compute_loss_;
  UpdateParameters update_;  // in place of compute_loss_
  TrainerOptions options_;
  std::unique_ptr<OutputFolder> folder_;  // on rank 0
  std::unique_ptr<ExtensionList> extensions_;
  std::unique_ptr<Observation> observation_;
  std::weak_ptr<const Observation> rest_;  // while what is left is reported: what stays observed
  std::unique_ptr<PeriodicAgreement> agreement_;
  std::unique_ptr<BackgroundSave> saving_;
  std::vector<std::function<void()>> when_committed_, when_root_committed_;  // of that save
  std::unique_ptr<TimeLimit> time_limit_;                                    // where it counts: on rank 0
  std::unique_ptr<RunStatus> status_;
  std::unique_ptr<StragglerWatch> stragglers_;
  CollectiveUse loss_calls_;
  std::vector<std::string> frozen_;    // parameters that the program had frozen when it made the trainer
  std::vector<std::string> settings_;  // of each optimizer, as the program made it; JSON

  std::filesystem::path resumed_from_;
  std::int64_t iteration_ = 0;
  std::optional<std::int64_t> continued_;     // iteration of the checkpoint of out() that it began from; on rank 0
  bool is_from_elsewhere_ = false;            // it began from a checkpoint that is not of out()
  bool has_set_aside_ = false;                // the checkpoints of other runs in out(); on rank 0
  std::int64_t saved_iteration_ = kNotSaved;  // of the last checkpoint_path(), begun or complete
  std::int64_t epoch_ = 0;
  double epoch_detail_ = 0;
  double previous_epoch_detail_ = 0;
  Clock::time_point start_ = Clock::now();
  SavingTimes saving_times_;
  bool expects_saves_ = false;
  bool is_preparing_saves_ = false;
  double earlier_s_ = 0;  // elapsed before the resume
  StepTimes last_step_;
  StepTimes all_steps_;                // as last_step_
  std::unique_ptr<DeviceTimer> work_;  // on a device without a trace: of all but waiting for minibatches
  bool stopped_ = false;
  std::int64_t reason_ = 0;  // why this run ends before its time: a signal's number, or the time limit; 0: it does not
  std::weak_ptr<const SignalFlag> signal_;  // while it runs
  std::string stop_reason_;                 // of stop() or a signal
  std::unique_ptr<Recorded> recorded_;
  std::unique_ptr<GraphedStep> graph_;           // null: without
  std::set<std::string> not_finite_;             // tensors of the model that were not when it came here
  std::optional<bool> loss_changes_parameters_;  // in place; no value before the first minibatch
  bool has_looked_at_state_ = false;             // of optimizers that may save nothing
};

}  // namespace mn
