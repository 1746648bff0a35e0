/// Checkpoints of a training loop without a Trainer, in the format of a Trainer's checkpoints: Each rank writes a part
/// of a checkpoint, and any number of ranks can resume from it.
///
///   mn::LoopCheckpoints checkpoints(comm, *optimizer, loader, *model, "result");
///   checkpoints.resume("auto");  // goes on from the newest checkpoint in result/, if there is one
///   std::int64_t step = checkpoints.step();
///   while (loader.epoch() < 20) {
///     while (auto batch = loader.next()) { …; optimizer->step(batch->samples); ++step; }
///     checkpoints.save(step);
///   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <mn/comm/communicator.hpp>
#include <mn/loader/iterator.hpp>
#include <mn/trainer/trainer_options.hpp>

namespace mn {

/// Saves and restores a training: parameters, buffers, optimizers with their learning rates, random numbers, the
/// position in the data, and one value of the program's own. The constructor, resume() and save() are collective, and
/// they block.
class LoopCheckpoints {
 public:
  /// All arguments must outlive the object. Rank 0 locks the folder `out`. Checkpoints are in OUT/ckpt/step-N; the
  /// `keep` newest checkpoints stay, and older ones are removed. Throws the same UsageError on every rank if `out` is
  /// not writable, if another job uses `out`, or if `keep` is 0.
  LoopCheckpoints(std::shared_ptr<Communicator> comm, MultiNodeOptimizer& optimizer, Iterator& iterator,
                  torch::nn::Module& model, const std::filesystem::path& out, std::size_t keep = 3);
  /// Like the constructor above, for several optimizers.
  LoopCheckpoints(std::shared_ptr<Communicator> comm, std::vector<NamedOptimizer> optimizers, Iterator& iterator,
                  torch::nn::Module& model, const std::filesystem::path& out, std::size_t keep = 3);
  ~LoopCheckpoints();
  LoopCheckpoints(const LoopCheckpoints&) = delete;             ///< not copyable
  LoopCheckpoints& operator=(const LoopCheckpoints&) = delete;  ///< not copyable

  /// Restores a checkpoint as Trainer::resume() does: `from` is a path, or "auto" for the newest undamaged checkpoint
  /// in `out`. Returns false if "auto" finds no checkpoint. Throws the errors of Trainer::resume().
  bool resume(const std::string& from);
  /// Local. Returns the number of steps at the latest save() or resume(). Returns 0 if neither was called yet.
  [[nodiscard]] std::int64_t step() const noexcept;
  /// Local. Returns the program's own value from the checkpoint that resume() has restored. Null if there is no such
  /// value.
  [[nodiscard]] const nlohmann::json& own() const noexcept;

  /// Writes a checkpoint, and removes old checkpoints. Call it between two steps; `step` is the number of steps that
  /// the training has made. The checkpoint is complete when the call returns. Before the save, applies delayed updates
  /// (MultiNodeOptimizer::synchronize()). Throws the errors of Checkpointer::save(), and throws ArgumentError if `step`
  /// is less than step().
  void save(std::int64_t step);
  /// Like save(step), but the checkpoint also holds `own`, a value of the program such as the best loss so far. Only
  /// rank 0's value is saved.
  void save(std::int64_t step, const nlohmann::json& own);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mn
