/// The checkpoints of a training: a checkpoint is written while training waits (save()), or while training goes on
/// (save_in_background()).
///
/// A save in the background has four phases. Each phase begins when all ranks have completed the previous phase.
///   begin   collective: copies the tensors, while training waits
///   write   each rank's thread writes the copy to its shard
///   commit  rank 0's thread writes the manifest, then calls the functions `root_committed`
///   end     collective: every rank calls the functions `committed` in the same iteration
/// (1) At most one save is under way. If a second save is requested in the same iteration, the request joins the save
///     under way. If it is requested in a later iteration, the request waits until the save under way has ended.
/// (2) If a save fails, rank 0 logs a warning, training goes on, and the previous checkpoint stays.
/// (3) Before its first checkpoint, a run renames the checkpoints that other runs have left in the output folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace mn {

class BackgroundSave;
class OutputFolder;
class RunStatus;
class SaveError;
class TimeLimit;
class TrainingState;
struct TrainingParts;

/// Writes a Trainer's checkpoints. All functions are collective, except functions whose comment says "Local".
class Checkpointer {
 public:
  /// What the Checkpointer needs from its Trainer.
  struct Surroundings {
    std::filesystem::path out;           ///< the output folder, absolute
    OutputFolder* folder = nullptr;      ///< null on all ranks except rank 0
    RunStatus* status = nullptr;         ///< not null
    TimeLimit* time_limit = nullptr;     ///< may be null; learns how long saves take
    std::function<void()> finish_steps;  ///< collective: Trainer::finish_steps()
    std::function<bool()> is_run_over;   ///< true if training has reached a limit
  };

  /// Only Trainer and LoopCheckpoints make a Checkpointer. `parts` and the objects in `surroundings` must outlive it.
  Checkpointer(const TrainingParts& parts, Surroundings surroundings);
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;             ///< not copyable
  Checkpointer& operator=(const Checkpointer&) = delete;  ///< not copyable

  /// Writes a checkpoint to `path`; each rank writes its part. The checkpoint is complete when the call returns. If a
  /// trained parameter has become infinite or NaN, or if a frozen parameter or a buffer has become NaN, the call writes
  /// nothing and throws the same DataError on every rank. Earlier checkpoints remain. Throws SaveError, a DataError, if
  /// writing fails.
  void save(const std::filesystem::path& path);
  /// Copies the state of the training. A thread then writes the copy to checkpoint_path(out, iteration) while training
  /// goes on. When the checkpoint is complete, a thread of rank 0 calls `root_committed`, which must not throw.
  /// Afterwards every rank calls `committed` in the same iteration, at the end of run() at the latest. If the save
  /// fails, rank 0 logs a warning, and neither function is called. If a save of an earlier iteration is under way, the
  /// call first waits until that save has ended. If the training has diverged, run() throws the DataError of save().
  void save_in_background(std::function<void()> committed, std::function<void()> root_committed = {});
  /// If a save is under way, waits until the save has ended.
  void finish();

  /// Local. If the program will call save_in_background(), call expect_saves() in Extension::initialize() or before
  /// run(). After the first iteration, a thread of each rank then allocates the memory for the copy of the state.
  /// Without this call, the first save waits until the memory is allocated.
  void expect_saves() noexcept { expects_saves_ = true; }

  /// Local. True, on all ranks, while a save is under way: from save_in_background() until the save has ended.
  [[nodiscard]] bool is_saving() const noexcept;
  /// Local. True, on all ranks, while the thread of some rank still allocates memory for saves, as expect_saves() asks.
  /// A save may begin even then.
  [[nodiscard]] bool is_preparing() const noexcept { return is_preparing_; }
  /// Local. True if a checkpoint of the current iteration is complete or being written. Also true before the first
  /// iteration of a run if the run starts at the beginning or continues a checkpoint of its own output folder.
  [[nodiscard]] bool is_saved() const noexcept;
  /// Local. Returns for how many seconds saves in the background have kept this rank's training waiting.
  [[nodiscard]] double stalled_s() const noexcept { return stalled_s_; }

  // The functions from here on are called only by Trainer.

  /// Called after a resume from `checkpoint`: notes whether this checkpoint is in the output folder of the run.
  void note_resume(const std::filesystem::path& checkpoint);
  /// Local. Called at the beginning of a run, before the extensions are initialized.
  void begin_run();
  /// Local. Called after the extensions were initialized. If saves are expected, and the output folder has checkpoints
  /// of other runs, rank 0 logs these checkpoints, because the user may have forgotten --resume.
  void log_other_runs() const;
  /// Called after each iteration. If expect_saves() was called, the first call begins to allocate memory for saves.
  void prepare();
  /// Local. True while this rank's thread allocates memory, writes a shard, or commits a checkpoint.
  [[nodiscard]] bool is_thread_busy() const noexcept;
  /// Local. Waits until this rank's thread has no work, but at most a second.
  void wait_for_thread() const;
  /// Begins the next phase of the save under way. Call it only when no rank's thread is busy.
  void advance();
  /// Called when a signal or the time limit ends the run. Saves the current iteration, unless it is saved already.
  /// Returns the path of the checkpoint.
  std::filesystem::path save_to_requeue();

 private:
  static constexpr std::int64_t kNotSaved = -1;
  using Callbacks = std::vector<std::function<void()>>;

  [[nodiscard]] std::int64_t iteration() const noexcept;
  [[nodiscard]] bool is_root() const noexcept;
  void rename_other_runs(std::int64_t next);
  void begin(std::function<void()> committed, std::function<void()> root_committed);
  [[nodiscard]] bool advance_phase();
  void warn(const SaveError& error) const;

  const TrainingParts& parts_;
  Surroundings surroundings_;
  std::unique_ptr<TrainingState> state_;
  std::unique_ptr<BackgroundSave> saving_;
  Callbacks committed_, root_committed_;      // functions to call when the save under way is complete
  std::int64_t saved_iteration_ = kNotSaved;  // iteration of the newest save in the output folder
  std::optional<std::int64_t> continued_;     // iteration of the checkpoint from which the run continues; on rank 0
  bool is_from_elsewhere_ = false;            // the run continues a checkpoint of another folder
  bool has_renamed_others_ = false;           // on rank 0: whether invariant 3 holds already
  bool expects_saves_ = false;
  bool is_preparing_ = false;
  double stalled_s_ = 0;
};

}  // namespace mn
