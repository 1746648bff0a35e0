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

  [[nodiscard]] HostCopies& of_blocking_calls();
  /// Makes host copies of `first` and `second` once the work on their streams is done. Null if both lie on the host.
  [[nodiscard]] HostCopies* after(const ConstBufferView& first, const ConstBufferView& second = {});
  /// Like after(), but if MPI takes device memory and the call has no time-out, returns null and waits for the work on
  /// the buffers' streams: MPI then takes the buffers themselves.
  [[nodiscard]] HostCopies* for_mpi(const ConstBufferView& first, const ConstBufferView& second = {});
  /// Returns the pool for the host copy of a nonblocking message's buffer. If the buffer needs no copy, waits for the
  /// work on its stream and returns null. Device buffers need none if MPI takes them and `always_copies` is false.
  [[nodiscard]] HostCopyPool* for_request(const ConstBufferView& buffer, bool always_copies);

 private:
  int device_;
  bool mpi_takes_device_buffers_;
  std::unique_ptr<HostCopies> blocking_;
  std::shared_ptr<HostCopyPool> requests_;
};

}  // namespace mn
