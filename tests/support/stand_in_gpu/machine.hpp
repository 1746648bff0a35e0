/// The streams and events of the GPUs that a process sees.
///
/// A stream is a queue of operations with a thread, which runs them in order, each after a random delay. What orders
/// two streams, and what the host waits for, are marks: that so many operations of a stream are done.
///
/// Invariants:
/// 1. One lock guards everything here. It is not held while an operation runs, so an operation may wait for others.
/// 2. An operation on the legacy default stream waits for what the blocking streams of its GPU hold at the time of the
///    call, and one on a blocking stream for what the legacy stream holds. To record an event and to wait for one are
///    such operations too.
/// 3. A stream that is destroyed runs what it holds, which still counts for the legacy stream and for drain().
/// 4. Streams are at work until the process is gone, so nothing here is destroyed at its exit.
///
/// Source: CUDA C++ Programming Guide, "Streams" and "Default Stream".
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include <cuda_runtime_api.h>

namespace mn::stand_in {

/// What a stream runs; it reads and writes memory then, not when it is submitted.
using Op = std::function<void()>;
/// Called when an operation takes its place in a stream: at the call, or whenever a graph that captured it is launched.
using MakeOp = std::function<Op()>;

inline constexpr int kLowestPriority = 0;
inline constexpr int kHighestPriority = -5;

struct Capture;
struct Stream;
using StreamPtr = std::shared_ptr<Stream>;

/// A point in a stream's work: reached when its first `ticket` operations are done.
struct Mark {
  StreamPtr stream;
  std::uint64_t ticket = 0;
};

struct Stream {
  struct Item {
    Op op;
    std::vector<Mark> after;
  };

  int device = 0;
  bool is_blocking = true;  ///< ordered with the legacy default stream
  int priority = 0;         ///< is told, and changes nothing, as CUDA promises nothing
  bool is_destroyed = false;
  std::mt19937 random;
  std::uint64_t submitted = 0;
  std::uint64_t done = 0;
  std::deque<Item> items;
  std::condition_variable changed;  ///< signals these three and is_destroyed: only waits for this stream wake
  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> tail;  ///< nodes of the capture that the next operation comes after
};

struct Event {
  int device = 0;
  bool has_time = true;
  Mark mark;                                                    ///< without a stream: never recorded
  std::shared_ptr<std::chrono::steady_clock::time_point> when;  ///< when the stream came to it
  std::shared_ptr<Capture> capture;                             ///< where it was last recorded, if in one
  std::vector<std::size_t> tail;
};

class Machine {
 public:
  Machine();

  using Lock = std::unique_lock<std::mutex>;
  [[nodiscard]] Lock lock() { return Lock(mutex_); }

  // All below with the lock held.

  /// New delays, as of a process that starts; waits for all work.
  void reseed(Lock& lock, std::uint64_t seed);

  [[nodiscard]] cudaStream_t create_stream(int device, bool is_blocking, int priority);
  /// The legacy default stream of `device` for null; null if there is no such stream.
  [[nodiscard]] StreamPtr find(cudaStream_t stream, int device);
  void destroy(cudaStream_t stream);
  [[nodiscard]] bool is_legacy(const StreamPtr& stream) const;
  /// Those that are not destroyed.
  [[nodiscard]] const std::map<cudaStream_t, StreamPtr>& streams() const { return streams_; }

  [[nodiscard]] cudaEvent_t create_event(int device);
  /// Null if there is no such event.
  [[nodiscard]] Event* find(cudaEvent_t event);
  /// False if there is no such event.
  bool destroy(cudaEvent_t event) { return events_.erase(event) == 1; }
  [[nodiscard]] std::size_t events() const { return events_.size(); }

  /// `op` runs after what the stream holds, what the legacy default stream adds, and `after`.
  Mark enqueue(const StreamPtr& stream, Op op, std::vector<Mark> after = {});
  /// What synchronizing with the stream waits for.
  [[nodiscard]] std::vector<Mark> pending(const StreamPtr& stream) const;
  void wait(Lock& lock, const std::vector<Mark>& marks);
  /// Waits for all that the GPU holds.
  void drain(Lock& lock, int device) { wait(lock, held(device, true)); }

 private:
  StreamPtr make_stream(int device, bool is_blocking, int priority);
  [[nodiscard]] std::vector<Mark> held(int device, bool with_non_blocking) const;
  void work(const StreamPtr& stream);

  std::mutex mutex_;
  std::map<cudaStream_t, StreamPtr> streams_;
  std::map<int, StreamPtr> legacy_;         // by device
  std::vector<std::weak_ptr<Stream>> all_;  // destroyed ones too while they hold work
  std::map<cudaEvent_t, std::unique_ptr<Event>> events_;
  std::uint64_t seed_;
  std::uint64_t streams_made_ = 0;
};

[[nodiscard]] Machine& machine();

[[nodiscard]] bool is_done(const std::vector<Mark>& marks);

}  // namespace mn::stand_in
