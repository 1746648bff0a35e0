/// The memory in which the ranks of an NCCL communicator meet.
///
/// It is an anonymous file of the process that made the communicator's id; the id names it by that process's entry in
/// /proc. Nothing is left behind, however a job ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include <nccl.h>
#include <sys/types.h>

namespace mn::stand_in {

inline constexpr std::size_t kPieceBytes = std::size_t{1} << 20;  ///< what others see of a rank's buffer at a time
inline constexpr std::size_t kMailBytes = std::size_t{1} << 16;   ///< the longest message that waits
inline constexpr int kNone = -1;                                  ///< no type, operator or root

/// What ranks must agree on.
struct Call {
  std::uint64_t number = 0;  ///< how many operations the communicator has had; of a collective, how many collectives
  char name[24] = {};
  std::uint64_t count = 0;
  int type = kNone;
  int op = kNone;
  int root = kNone;

  bool operator==(const Call&) const = default;
  /// "operation 7, AllReduce of 1027 float32, sum"
  [[nodiscard]] std::string text() const;
};

/// What a rank tells the others.
struct Slot {
  pid_t pid = 0;
  char place[96] = {};  ///< GPU and host
  Call call;
  std::atomic<std::uint32_t> meetings;  ///< that it came to
  // What it has connected for, a bit each: kinds of collectives; ranks to which it sends, from which it receives.
  std::atomic<std::uint64_t> collectives, sends, receives;
  int color = 0;  ///< the split's, as all below
  int key = 0;
  char segment[64] = {};  ///< name of the part whose first rank this is
};

/// What one rank sends another, piece by piece.
struct Mail {
  std::atomic<bool> is_full;
  std::uint64_t count = 0;
  int type = kNone;
  std::byte data[kMailBytes];
};

/// The name of a new segment, which lives until forget_segment() in this process, and then as long as it is mapped.
/// Empty where there is no more memory.
[[nodiscard]] std::string new_segment();
/// Does nothing where another process made it.
void forget_segment(const std::string& name);

class Segment {
 public:
  Segment(const std::string& name, int ranks);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  /// False: there is no such segment, or no more memory.
  [[nodiscard]] explicit operator bool() const noexcept { return memory_ != nullptr; }

  // The ranks that wait in a meeting, and the number of meetings.
  [[nodiscard]] std::atomic<std::uint32_t>& here();
  [[nodiscard]] std::atomic<std::uint32_t>& round();
  [[nodiscard]] Slot& slot(int rank);
  [[nodiscard]] Mail& mail(int from, int to);
  /// kPieceBytes that `rank` writes and all read.
  [[nodiscard]] std::byte* area(int rank);

 private:
  struct Header {
    std::atomic<std::uint32_t> here;
    std::atomic<std::uint32_t> round;
  };
  [[nodiscard]] std::byte* at(std::size_t offset) const { return memory_ + offset; }

  std::size_t ranks_;
  std::size_t slots_ = 0;  // where they begin, as all below
  std::size_t mails_ = 0;
  std::size_t areas_ = 0;
  std::size_t bytes_ = 0;
  std::byte* memory_ = nullptr;
};

}  // namespace mn::stand_in
