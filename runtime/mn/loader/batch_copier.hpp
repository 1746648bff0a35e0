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

/// A copy under way: a worker starts it, the user of the batch waits for it.
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
  /// Options for a batch's memory: page-locked if the batch goes to a GPU.
  [[nodiscard]] at::TensorOptions memory() const { return at::TensorOptions().pinned_memory(stream_.has_value()); }
  /// Copies all tensors to the device (not if that is the CPU), then calls `finish`, unless it is empty. The host does
  /// not wait for the copy.
  void copy(std::vector<BatchField>& fields, const std::function<void(std::vector<BatchField>&)>& finish,
            CopyTicket& ticket) const;

 private:
  c10::Device device_;
  std::optional<c10::Stream> stream_;
};

}  // namespace mn
