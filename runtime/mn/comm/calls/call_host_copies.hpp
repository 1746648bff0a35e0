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

  /// The memory for host copies of blocking calls.
  [[nodiscard]] HostCopies& of_blocking_calls();
  /// Makes host copies of `first` and `second`, after the work on their streams. Null if both lie on the host.
  [[nodiscard]] HostCopies* after(const ConstBufferView& first, const ConstBufferView& second = {});
  /// Like after(first, second), but also returns null if MPI takes device memory and the call has no time-out, because
  /// MPI can then take the buffers themselves. In this case the function waits for the work on the buffers' streams.
  [[nodiscard]] HostCopies* for_mpi(const ConstBufferView& first, const ConstBufferView& second = {});
  /// Returns the pool from which a nonblocking message takes memory for the host copy of this buffer. If the buffer
  /// needs no host copy, waits for the work on the buffer's stream and returns null.
  [[nodiscard]] HostCopyPool* for_request(const ConstBufferView& buffer);

 private:
  int device_;
  bool mpi_takes_device_buffers_;
  std::unique_ptr<HostCopies> blocking_;
  std::shared_ptr<HostCopyPool> requests_;
};

}  // namespace mn
