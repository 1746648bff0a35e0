/// Copies a minibatch to a GPU while the GPU computes with earlier minibatches.
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

/// A copy of a batch to a GPU. A worker starts the copy, and the user of the batch calls wait().
class CopyTicket {
 public:
  CopyTicket() = default;
  explicit CopyTicket(std::unique_ptr<c10::Event> done) : done_(std::move(done)) {}
  /// Makes the caller's current stream wait for the copy, without blocking the host. Also keeps the tensors' memory
  /// until that stream has used the tensors. Does nothing for a batch on the CPU.
  void wait(const std::vector<BatchField>& fields) const;

 private:
  std::unique_ptr<c10::Event> done_;
};

/// Copies batches from page-locked memory to a GPU, on a separate stream. The host does not wait. Thread-safe.
class BatchCopier {
 public:
  explicit BatchCopier(Device device);
  /// How to allocate tensors on the host: in page-locked memory if the device is a GPU.
  [[nodiscard]] at::TensorOptions memory() const { return at::TensorOptions().pinned_memory(stream_.has_value()); }
  /// If the device is a GPU, starts a copy of all tensors to it. Then calls `finish`, unless it is empty. The host does
  /// not wait for the copy; ticket.wait() does.
  void copy(std::vector<BatchField>& fields, const std::function<void(std::vector<BatchField>&)>& finish,
            CopyTicket& ticket) const;

 private:
  c10::Device device_;
  std::optional<c10::Stream> stream_;
};

}  // namespace mn
