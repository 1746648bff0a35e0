/// Copies of a dataset's shards on a disk of the node.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <mn/data/dataset.hpp>
#include <mn/data/manifest.hpp>

namespace mn::data {

/// Copies shards in a thread of its own, which is ended at any time without harm.
///
/// (1) A copy has its name only when it is whole, in a folder named after the table's hash: other data never serve, and
///     later jobs on the node take what is there.
/// (2) A copy in work is locked: of several processes that want it one copies. What a killed one left is replaced.
/// (3) Whoever opens a copy compares it with the table, as with any shard, and drop()s what is no good.
/// (4) What can't be copied is a warning, and the end of copying. Thread-safe.
class ShardStage {
 public:
  /// Of `parts` processes of the node, this one copies shards part, part + parts, …
  ShardStage(const ShardTable& table, const StageOptions& options, int part, int parts);

  /// Null while there is none to use.
  [[nodiscard]] std::optional<std::filesystem::path> copy_of(std::size_t shard) const;
  /// The copy is not used any more; the first time a warning says `why`.
  void drop(std::size_t shard, const std::string& why);
  /// Shards whose copies are in use: for tests and reports.
  [[nodiscard]] std::size_t copies() const;

 private:
  enum class State : std::uint8_t { kAbsent, kReady, kDropped };
  struct Shard {
    std::filesystem::path from;
    std::filesystem::path to;
    std::int64_t bytes = 0;
    std::atomic<State> state = State::kAbsent;
  };

  void work(const std::stop_token& stop, int part, int parts);
  bool look(Shard& shard) const;
  void copy(const Shard& shard, const std::stop_token& stop) const;
  static void copy_bytes(const Shard& shard, const std::filesystem::path& temporary, const std::stop_token& stop);
  void check_room(std::int64_t bytes) const;

  std::filesystem::path folder_;
  bool by_room_;               // no budget was given
  std::vector<Shard> shards_;  // those that the budget has room for: the dataset's first ones
  std::atomic<bool> warned_ = false;
  std::jthread thread_;  // last: ended before what it uses
};

}  // namespace mn::data
