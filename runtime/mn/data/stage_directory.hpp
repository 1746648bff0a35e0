/// Which nodes have copies of files: what one node, their home, knows. File f has as its home the node number
/// f mod n of the n nodes that have servers.
#pragma once

#include <chrono>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace mn::data {

/// Where a node gets a file from that it wants to copy.
struct StageSource {
  enum class Kind : std::uint32_t { kStorage, kWait, kNode };
  Kind kind = Kind::kStorage;  ///< kWait: another node copies it at present
  std::uint32_t node = 0;      ///< kNode: one that has a copy
};

/// (1) As long as nobody has a copy, one node at a time reads the file from shared storage.
/// (2) Nodes that have a copy are named in turn.
/// (3) A node that does not say in kMaxCopyTime what became of its copying no longer counts as copying.
class StageDirectory {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::minutes kMaxCopyTime{5};

  /// For `node`, which copies the file from there if it is told to.
  [[nodiscard]] StageSource ask(std::uint64_t file, std::uint32_t node, Time now);
  /// The node has a copy.
  void add(std::uint64_t file, std::uint32_t node);
  /// It has none, or none that is of use to others; nor does it copy the file.
  void remove(std::uint64_t file, std::uint32_t node);

 private:
  struct Entry {
    std::vector<std::uint32_t> nodes;  // that have a copy
    std::size_t turn = 0;              // of nodes, to be named next
    std::uint32_t copier = 0;          // reads it from shared storage …
    Time until = {};                   // … at most until then
  };
  std::unordered_map<std::uint64_t, Entry> files_;
};

}  // namespace mn::data
