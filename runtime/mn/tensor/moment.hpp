/// A point in time: on the host, or in a device's work, without a wait of the host.
#pragma once

#include <chrono>
#include <memory>

#include <c10/core/Event.h>

#include <mn/core/buffer.hpp>

namespace mn {

class Moment {
 public:
  Moment() = default;
  /// The present; on a device, the end of the work that its current stream holds now.
  [[nodiscard]] static Moment now(Device device);
  /// `earlier` must be of the same device. Waits until a device has reached this moment.
  [[nodiscard]] double seconds_since(const Moment& earlier) const;

 private:
  std::chrono::steady_clock::time_point on_host_;
  std::shared_ptr<c10::Event> on_device_;  // null on the CPU
};

}  // namespace mn
