/// Gives a communicator's calls the host copies of their device buffers. A call needs no copies if all its buffers lie
/// on the host, or if MPI takes device memory and the call has no time-out.
#pragma once

#include <memory>

#include <mn/comm/device/host_copies.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

class CallHostCopies {
 public:
  /// The constructor allocates nothing. `device` is the index of the GPU; communicators on the CPU ignore it.
  explicit CallHostCopies(int device);

  /// The host copies of calls that block.
  [[nodiscard]] HostCopies& of_blocking_calls();
  /// Returns the host copies for the buffers `first` and `second`; null if neither buffer lies on the device. Copying
  /// begins after the work on the buffers' streams.
  [[nodiscard]] HostCopies* after(const ConstBufferView& first, const ConstBufferView& second = {});
  /// Like after(first, second), but returns null if MPI itself can take the buffers: it takes device memory, and the
  /// call has no time-out. In this case the function waits for the work on the buffers' streams.
  [[nodiscard]] HostCopies* for_mpi(const ConstBufferView& first, const ConstBufferView& second = {});
  /// Returns the pool from which a nonblocking message takes the host copy of this buffer. If the buffer needs no copy,
  /// waits for the work on the buffer's stream and returns null.
  [[nodiscard]] HostCopyPool* for_request(const ConstBufferView& buffer);

 private:
  int device_;
  bool mpi_takes_device_buffers_;
  std::unique_ptr<HostCopies> blocking_;
  std::shared_ptr<HostCopyPool> requests_;
};

}  // namespace mn
