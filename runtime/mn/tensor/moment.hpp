/// When something happened: on the host, or in a device's work, which the host need not wait for.
#pragma once

#include <chrono>
#include <memory>

#include <c10/core/Event.h>

#include <mn/core/buffer.hpp>

namespace mn {

class Moment {
 public:
  Moment() = default;
  /// On a device: when its current stream has done what it holds now.
  [[nodiscard]] static Moment now(Device device);
  /// `earlier` is of the same device. Waits until a device has come here.
  [[nodiscard]] double seconds_since(const Moment& earlier) const;

 private:
  std::chrono::steady_clock::time_point on_host_;
  std::shared_ptr<c10::Event> on_device_;  // null on the CPU
};

}  // namespace mn
