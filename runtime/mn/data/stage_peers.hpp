/// The other nodes of a job that copy the same files: who has one, and getting it from there.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <mn/core/net/socket.hpp>
#include <mn/core/net/timed_socket.hpp>
#include <mn/data/stage_directory.hpp>

namespace mn::data {

/// Shared by the job's processes, so that no other takes part.
using StageKey = std::array<std::byte, 16>;

/// The nodes of a job, as all of its processes know them.
struct StageNodes {
  StageKey key = {};
  std::uint32_t self = 0;                           ///< this process's
  std::vector<std::vector<Endpoint>> servers = {};  ///< by node: how to reach its StageServer; empty: it has none
};

/// Copies travel in pieces of this size, each with its checksum.
inline constexpr std::int64_t kStagePieceBytes = 4 << 20;
/// A node that takes longer for one is not asked again.
inline constexpr std::chrono::seconds kStagePieceTime{60};

/// How a connection begins; one request each.
struct StageRequest {
  enum class Kind : std::uint32_t { kAsk, kAdd, kRemove, kGet };
  StageKey key = {};
  Kind kind = Kind::kAsk;
  std::uint32_t node = 0;
  std::uint64_t file = 0;
};

/// What comes back. To kGet: whether the pieces follow, each a checksum and its bytes.
enum class StageAnswer : std::uint32_t { kYes, kNo, kBusy };

/// Asks the homes of files (StageDirectory) who has copies, and those nodes for them. Thread-safe.
///
/// (1) What was received has the checksums of what the first node read from shared storage.
/// (2) A node that can't be reached, or does not answer, is not asked again: files are read from shared storage then.
class StagePeers {
 public:
  explicit StagePeers(StageNodes nodes);

  /// Where to copy the file from.
  [[nodiscard]] StageSource ask(std::uint64_t file);
  /// This node has a copy, which others may get if it has a server.
  void add(std::uint64_t file) {
    if (!homes_.empty() && !nodes_.servers[nodes_.self].empty()) tell(StageRequest::Kind::kAdd, file, nodes_.self);
  }
  /// `node` has none.
  void remove(std::uint64_t file, std::uint32_t node) { tell(StageRequest::Kind::kRemove, file, node); }
  void give_up(std::uint64_t file) { remove(file, nodes_.self); }

  /// Gets `bytes` of a copy in pieces: take(checksum, piece). kNo if there is no such copy, or a damaged one.
  [[nodiscard]] StageAnswer get(std::uint64_t file, std::uint32_t node, std::int64_t bytes,
                                const std::function<void(std::uint32_t, std::span<const std::byte>)>& take);

 private:
  [[nodiscard]] std::uint32_t home_of(std::uint64_t file) const { return homes_[file % homes_.size()]; }
  /// A connection on which the answer to a request has come, which `answer` gets; empty if there is none.
  template <class Answer>
  [[nodiscard]] Fd request(std::uint32_t node, StageRequest::Kind kind, std::uint64_t file, std::uint32_t about,
                           Answer& answer);
  [[nodiscard]] Fd connect(std::uint32_t node, const StageRequest& request);
  void tell(StageRequest::Kind kind, std::uint64_t file, std::uint32_t about);

  StageNodes nodes_;
  std::vector<std::uint32_t> homes_;                    // nodes with servers; empty: this is the only node
  std::vector<std::atomic<std::size_t>> good_address_;  // by node: of its servers, the one that answered last
  std::vector<std::atomic<bool>> was_reached_;
  std::vector<std::atomic<bool>> is_lost_;
  std::atomic<bool> warned_ = false;
};

}  // namespace mn::data
