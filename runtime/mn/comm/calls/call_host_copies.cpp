#include <initializer_list>

#include <mn/comm/call_limits.hpp>
#include <mn/comm/call_stages.hpp>
#include <mn/comm/mpi.hpp>

namespace mn {

CallStages::CallStages(int device) : device_(device), mpi_takes_device_buffers_(mpi_is_cuda_aware()) {}

HostStage& CallStages::stage() {
  if (!stage_) stage_ = std::make_unique<HostStage>(device_);
  return *stage_;
}

HostStage* CallStages::after(const ConstBufferView& first, const ConstBufferView& second) {
  if (!lies_on_device(first) && !lies_on_device(second)) return nullptr;
  stage().after(std::initializer_list<ConstBufferView>{first, second});
  return stage_.get();
}

HostStage* CallStages::for_mpi(const ConstBufferView& first, const ConstBufferView& second) {
  HostStage* const stage = after(first, second);
  // A call with a time-out is one of MPI's nonblocking collectives, which Open MPI does not offer for device buffers.
  if (stage == nullptr || !mpi_takes_device_buffers_ || limited_call() != nullptr) return stage;
  stage->wait();  // MPI knows no streams
  return nullptr;
}

HostStages* CallStages::for_request(const ConstBufferView& buffer) {
  if (!lies_on_device(buffer) || mpi_takes_device_buffers_) {
    static_cast<void>(for_mpi(buffer));  // which waits for the buffer's stream
    return nullptr;
  }
  if (!request_stages_) request_stages_ = std::make_shared<HostStages>(device_);
  return request_stages_.get();
}

}  // namespace mn
