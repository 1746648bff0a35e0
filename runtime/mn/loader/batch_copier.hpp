/// Batches on their way to a GPU: pinned memory, a stream of their own, no waiting of the host.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/TensorOptions.h>

#include <mn/core/buffer.hpp>
#include <mn/loader/batch.hpp>

namespace mn {

/// A copy under way. Made on a worker, waited for where the batch is used.
class CopyTicket {
 public:
  CopyTicket() = default;
  explicit CopyTicket(std::unique_ptr<c10::Event> done) : done_(std::move(done)) {}
  /// Makes the caller's current stream wait for the copy, and keeps the tensors' memory until that stream has passed. A
  /// batch on the CPU needs neither.
  void wait(const std::vector<BatchField>& fields) const;

 private:
  std::unique_ptr<c10::Event> done_;
};

/// Thread-safe.
class BatchCopier {
 public:
  explicit BatchCopier(Device device);
  /// What batches are best made in: page-locked memory where they go to a GPU.
  [[nodiscard]] at::TensorOptions memory() const { return at::TensorOptions().pinned_memory(stream_.has_value()); }
  /// All tensors to the device, unchanged if that is the CPU; then `finish`, unless it is empty, for which the copy
  /// does not wait on the host.
  void copy(std::vector<BatchField>& fields, const std::function<void(std::vector<BatchField>&)>& finish,
            CopyTicket& ticket) const;

 private:
  c10::Device device_;
  std::optional<c10::Stream> stream_;
};

}  // namespace mn
