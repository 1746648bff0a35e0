/// Which host copies a communicator's calls use for device buffers: none if all buffers of a call lie on the host, or
/// if MPI takes device memory.
#pragma once

#include <memory>

#include <mn/comm/device/host_copies.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

class CallHostCopies {
 public:
  /// Allocates nothing yet. `device`: the GPU's index; ignored if the communicator computes on the CPU.
  explicit CallHostCopies(int device);

  /// The host copies of calls that block.
  [[nodiscard]] HostCopies& of_blocking_calls();
  /// Host copies that begin after the work on the buffers' streams; null if no buffer lies on the device.
  [[nodiscard]] HostCopies* after(const ConstBufferView& first, const ConstBufferView& second = {});
  /// after(first, second), or null if MPI takes device memory; then the work on the buffers' streams is done.
  [[nodiscard]] HostCopies* for_mpi(const ConstBufferView& first, const ConstBufferView& second = {});
  /// The pool of a request's copies of this buffer; null, after the work on the buffer's stream, if it needs none.
  [[nodiscard]] HostCopyPool* for_request(const ConstBufferView& buffer);

 private:
  int device_;
  bool mpi_takes_device_buffers_;
  std::unique_ptr<HostCopies> blocking_;
  std::shared_ptr<HostCopyPool> requests_;
};

}  // namespace mn
