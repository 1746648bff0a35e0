/// Which host memory stands in for the device buffers of a communicator's calls.
///
/// Communicator has one, on every backend: where all buffers lie on the host, or MPI takes them as they are, a call
/// gets no stage.
#pragma once

#include <memory>

#include <mn/comm/host_stage.hpp>
#include <mn/core/buffer.hpp>

namespace mn {

class CallStages {
 public:
  /// Makes nothing yet. `device`: the GPU's index; any where the communicator computes on the CPU.
  explicit CallStages(int device);

  /// The stage of calls that wait.
  [[nodiscard]] HostStage& stage();
  /// The same, after the work on the buffers' streams; null if none of them lies on the device.
  [[nodiscard]] HostStage* after(const ConstBufferView& first, const ConstBufferView& second = {});
  /// The same for a call of MPI: null if that takes the buffers as they are; then the work on their streams is done.
  [[nodiscard]] HostStage* for_mpi(const ConstBufferView& first, const ConstBufferView& second = {});
  /// Where a request borrows the stage for this buffer; null if MPI takes it as it is, after the work on its stream.
  [[nodiscard]] HostStages* for_request(const ConstBufferView& buffer);

 private:
  int device_;
  bool mpi_takes_device_buffers_;
  std::unique_ptr<HostStage> stage_;
  std::shared_ptr<HostStages> request_stages_;
};

}  // namespace mn
