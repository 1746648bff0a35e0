#include <mn/comm/calls/call_host_copies.hpp>

#include <initializer_list>

#include <mn/comm/calls/call_timeouts.hpp>
#include <mn/comm/mpi/mpi.hpp>

namespace mn {

CallHostCopies::CallHostCopies(int device) : device_(device), mpi_takes_device_buffers_(mpi_is_cuda_aware()) {}

HostCopies& CallHostCopies::of_blocking_calls() {
  if (!blocking_) blocking_ = std::make_unique<HostCopies>(device_);
  return *blocking_;
}

HostCopies* CallHostCopies::after(const ConstBufferView& first, const ConstBufferView& second) {
  if (!lies_on_device(first) && !lies_on_device(second)) return nullptr;
  of_blocking_calls().after(std::initializer_list<ConstBufferView>{first, second});
  return blocking_.get();
}

HostCopies* CallHostCopies::for_mpi(const ConstBufferView& first, const ConstBufferView& second) {
  HostCopies* const copies = after(first, second);
  // In a call with a time-out, Open MPI's nonblocking collectives do not take device buffers.
  if (copies == nullptr || !mpi_takes_device_buffers_ || timed_call() != nullptr) return copies;
  copies->wait();  // MPI does not wait for streams
  return nullptr;
}

HostCopyPool* CallHostCopies::for_request(const ConstBufferView& buffer, bool always_copies) {
  if (!lies_on_device(buffer) || (mpi_takes_device_buffers_ && !always_copies)) {
    static_cast<void>(for_mpi(buffer));
    return nullptr;
  }
  if (!requests_) requests_ = std::make_shared<HostCopyPool>(device_);
  return requests_.get();
}

}  // namespace mn
