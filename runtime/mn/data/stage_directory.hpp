/// Which nodes have copies of files. Each file has a home node, which keeps its directory entry: file f has as home the
/// node number f mod n of the n nodes with servers.
#pragma once

#include <chrono>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace mn::data {

/// Where a node gets a file that it wants to copy.
struct StageSource {
  enum class Kind : std::uint32_t { kStorage, kWait, kNode };
  Kind kind = Kind::kStorage;  ///< kWait: another node is copying the file
  std::uint32_t node = 0;      ///< kNode: a node with a copy
};

/// (1) Until a node has a copy, only one node at a time reads the file from shared storage.
/// (2) Nodes with a copy are named in turn.
/// (3) A node that does not report the end of its copying within kMaxCopyTime no longer counts as copying.
class StageDirectory {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::minutes kMaxCopyTime{5};

  /// The source of the file for `node`; kStorage makes `node` the copier.
  [[nodiscard]] StageSource ask(std::uint64_t file, std::uint32_t node, Time now);
  /// The node has a copy.
  void add(std::uint64_t file, std::uint32_t node);
  /// The node has no usable copy, and is not copying the file.
  void remove(std::uint64_t file, std::uint32_t node);

 private:
  struct Entry {
    std::vector<std::uint32_t> nodes;  // nodes with a copy
    std::size_t turn = 0;              // of nodes, to be named next
    std::uint32_t copier = 0;          // the node that reads the file from shared storage …
    Time until = {};                   // … at most until then
  };
  std::unordered_map<std::uint64_t, Entry> files_;
};

}  // namespace mn::data
