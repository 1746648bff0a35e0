/// The training loop: minibatch → loss → gradients → multi-node update, with extensions that run by triggers.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/data/iterator.hpp>
#include <mn/train/checkpoint.hpp>
#include <mn/train/extension.hpp>
#include <mn/train/optimizer.hpp>
#include <mn/train/summary.hpp>
#include <mn/train/trace.hpp>

namespace torch::nn {
class Module;
}

namespace mn {

/// Returns the mean loss over the minibatch's samples (a scalar; it becomes "main/loss"). Metrics added to `report`
/// with their samples as weight become "main/NAME". Not called with a minibatch of 0 samples.
using ComputeLoss = std::function<at::Tensor(const Batch& batch, Summary& report)>;

struct TrainerOptions {
  std::int64_t epochs = 0;      ///< train until so many epochs are complete; 0: no limit
  std::int64_t iterations = 0;  ///< and for at most so many iterations; 0: no limit. One of the two must be given
  std::filesystem::path out = "result";  ///< made if absent; all files of the extensions go there
  /// On SIGTERM or SIGUSR1 to any rank (a scheduler's notice before it ends the job): all ranks finish the iteration,
  /// a checkpoint is written, and run() returns kExitRequeue.
  bool checkpoint_on_signal = false;
  /// Where the phases of each step are recorded, if not null; each step then waits for its device, so that the times
  /// are the work's. Give the optimizer the same one.
  std::shared_ptr<Trace> trace = {};
};

/// Where one step's time went on this rank, in seconds; the sum is the step without extensions.
struct StepTimes {
  double data_s = 0;           ///< waiting for the minibatch
  double compute_s = 0;        ///< forward, backward, hooks, update
  double communication_s = 0;  ///< waiting for the other ranks and the network: what overlap could not hide
  std::uint64_t bytes = 0;     ///< given to collectives
};

struct ExtendOptions {
  std::optional<Interval> trigger = {};  ///< default: the extension's own
  std::optional<int> priority = {};      ///< default: the extension's own; equal ones run in the order added
  std::string name = {};                 ///< default: the extension's own
};

/// Exit status of a program whose work is checkpointed and wants to be started again (sysexits' EX_TEMPFAIL).
inline constexpr int kExitRequeue = 75;

/// The constructor, extend(), run(), save(), resume(), take_observation() and report() are collective: every rank makes
/// the same calls in the same order. Extensions and seconds triggers stay in step because rank 0's clock decides.
class Trainer {
 public:
  /// Broadcasts rank 0's parameters and buffers, also those that the optimizer does not hold. Throws UsageError on all
  /// ranks alike if there is no limit or if `out` can't be written.
  Trainer(std::shared_ptr<Communicator> comm, std::shared_ptr<MultiNodeOptimizer> optimizer,
          std::shared_ptr<Iterator> iterator, std::shared_ptr<torch::nn::Module> model, ComputeLoss compute_loss,
          TrainerOptions options);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Adds an extension and returns it; it lives as long as the trainer. A name in use is an ArgumentError.
  template <class E>
  E& extend(std::unique_ptr<E> extension, ExtendOptions options = {}) {
    E& added = *extension;
    add(std::move(extension), std::move(options));
    return added;
  }
  /// The same for a function without state, such as a learning-rate schedule.
  void extend(const std::string& name, Interval trigger, std::function<void(Trainer&)> function);

  /// Trains until a limit is reached; 0, or kExitRequeue if a signal ended it (then a checkpoint is in `out`). All that
  /// rank 0 wrote is then complete.
  int run();

  /// Writes a checkpoint: rank 0 alone writes, and when the call returns the file is complete.
  void save(const std::filesystem::path& path);
  /// Goes on from a checkpoint, also one of another number of ranks: parameters, buffers, optimizer, learning rate,
  /// random numbers, iterator, counters and extensions. `from` is a file, or "auto" for the newest one in `out` that
  /// is undamaged (none: false, and training begins at the start). Throws DataError on all ranks alike if the file is
  /// absent, damaged, or of another model or optimizer.
  bool resume(const std::string& from);

  /// Means over all ranks' samples since the last call ("main/…"), the values reported since, "images_per_second" (over
  /// all ranks, without the time that extensions took) and "bytes_per_step" (that this rank gave to collectives for
  /// gradients or parameters). For LogReport: there is one reader in a trainer.
  [[nodiscard]] Metrics take_observation();
  /// A value that is the same on all ranks, e.g. an evaluator's; the next observation holds the latest.
  void report(const std::string& name, double value);
  /// Waits until this rank's device has done the steps so far, so that they count as training time.
  void synchronize();

  [[nodiscard]] Communicator& communicator() const noexcept { return *comm_; }
  [[nodiscard]] bool is_root() const noexcept { return comm_->rank() == 0; }
  [[nodiscard]] MultiNodeOptimizer& optimizer() const noexcept { return *optimizer_; }
  [[nodiscard]] Iterator& iterator() const noexcept { return *iterator_; }
  [[nodiscard]] torch::nn::Module& model() const noexcept { return *model_; }
  [[nodiscard]] const TrainerOptions& options() const noexcept { return options_; }
  [[nodiscard]] const StepTimes& last_step() const noexcept { return last_step_; }
  [[nodiscard]] const std::filesystem::path& out() const noexcept { return options_.out; }
  /// Iterations and epochs completed, also before a resume.
  [[nodiscard]] std::int64_t iteration() const noexcept { return iteration_; }
  [[nodiscard]] std::int64_t epoch() const noexcept { return epoch_; }
  /// Epochs with the fraction of the current one.
  [[nodiscard]] double epoch_detail() const noexcept { return epoch_detail_; }
  /// Seconds since run() began, plus those before a resume.
  [[nodiscard]] double elapsed_s() const;
  /// Done part of the whole training, 0 … 1.
  [[nodiscard]] double progress() const noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::string name;
    std::unique_ptr<Extension> extension;
    Interval trigger;
    int priority;
    double last_run_s;  // rank 0's, for seconds
    bool due;           // for seconds: what rank 0 decided
  };

  void add(std::unique_ptr<Extension> extension, ExtendOptions options);
  void prepare_out() const;
  void begin();
  void advance();
  [[nodiscard]] Batch next_batch();
  void train_on(const Batch& batch);
  [[nodiscard]] at::Tensor forward(const Batch& batch);
  void end_epoch();
  bool agree(bool signalled);
  bool fires(Entry& entry) const;
  void run_extensions();
  [[nodiscard]] bool finished() const noexcept;
  // trainer_state.cpp
  [[nodiscard]] nlohmann::json replicated_state() const;
  [[nodiscard]] nlohmann::json rank_record() const;
  [[nodiscard]] std::string rank_tensors() const;
  void restore(const Checkpoint& checkpoint);
  void restore_rank(const Checkpoint& checkpoint);

  std::shared_ptr<Communicator> comm_;
  std::shared_ptr<MultiNodeOptimizer> optimizer_;
  std::shared_ptr<Iterator> iterator_;
  std::shared_ptr<torch::nn::Module> model_;
  ComputeLoss compute_loss_;
  TrainerOptions options_;
  std::vector<Entry> extensions_;                       // by priority
  nlohmann::json restored_ = nlohmann::json::object();  // extensions' states, until run() hands them out

  std::int64_t iteration_ = 0;
  std::int64_t epoch_ = 0;
  double epoch_detail_ = 0;
  double previous_epoch_detail_ = 0;
  Clock::time_point start_ = Clock::now();
  double earlier_s_ = 0;  // elapsed before the resume

  Summary observation_;             // since the last report, this rank's
  Metrics reported_;                // since the last report, all ranks'
  std::vector<at::Tensor> losses_;  // not yet in observation_: reading one would wait for the device
  std::vector<std::int64_t> losses_samples_;
  std::int64_t samples_ = 0;  // since the last report, this rank's
  double training_s_ = 0;     // since the last report, without extensions
  StepTimes last_step_;
  std::int64_t reported_iteration_ = 0;  // at the last report, or where this process began
  std::uint64_t reported_bytes_ = 0;

  bool must_agree_ = false;          // something depends on clocks or signals
  std::int64_t next_agreement_ = 0;  // iteration
  std::int64_t last_agreement_ = 0;
  Clock::time_point last_agreement_at_ = {};
};

}  // namespace mn
