/// Chooses the host copies that a communicator's calls use for device buffers. A call needs none if all its buffers lie
/// on the host, or if MPI takes device memory and the call has no time-out.
#pragma once

#include <memory>

#include <mn/comm/device/host_copies.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

class CallHostCopies {
 public:
  /// The constructor allocates nothing. `device` is the GPU's index; it is ignored if the communicator computes on the
  /// CPU.
  explicit CallHostCopies(int device);

  /// The host copies of calls that block.
  [[nodiscard]] HostCopies& of_blocking_calls();
  /// Returns the host copies for the buffers `first` and `second`. Copies begin after the work on the buffers' streams.
  /// Null if neither buffer lies on the device.
  [[nodiscard]] HostCopies* after(const ConstBufferView& first, const ConstBufferView& second = {});
  /// Like after(first, second). If MPI takes device memory and the call has no time-out, waits instead for the work on
  /// the buffers' streams, and returns null.
  [[nodiscard]] HostCopies* for_mpi(const ConstBufferView& first, const ConstBufferView& second = {});
  /// The pool from which a request takes the host copy of this buffer. If the buffer needs no copy, waits for the work
  /// on its stream and returns null.
  [[nodiscard]] HostCopyPool* for_request(const ConstBufferView& buffer);

 private:
  int device_;
  bool mpi_takes_device_buffers_;
  std::unique_ptr<HostCopies> blocking_;
  std::shared_ptr<HostCopyPool> requests_;
};

}  // namespace mn
