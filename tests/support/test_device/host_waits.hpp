/// Where the host waits for the device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mn::test_device {

/// Counts, while it lives, each call of this process that waits for the device, that may (copies of pageable memory), or
/// that asks whether it is done. One at a time.
class HostWaits {
 public:
  HostWaits();
  ~HostWaits();
  HostWaits(const HostWaits&) = delete;
  HostWaits& operator=(const HostWaits&) = delete;

  /// So far; a question whether work is done counts as no wait.
  [[nodiscard]] std::int64_t count() const;

  struct Place {
    std::string call;  ///< of CUDA
    std::int64_t times = 0;
    std::vector<std::string> callers;  ///< functions of the program, the innermost first
  };
  /// By call and stack, the most frequent first. Names are addr2line's.
  [[nodiscard]] std::vector<Place> places() const;
  /// places() as lines: times / `steps`, the call, and who called.
  [[nodiscard]] std::string table(std::int64_t steps) const;
};

}  // namespace mn::test_device
