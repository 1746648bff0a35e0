#include <mn/gradients/background_reducer.hpp>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <mn/comm/device/device_collectives.hpp>
#include <mn/gradients/background_reducer.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {

BackgroundReducer::BackgroundReducer(Communicator& comm, const NcclLimits& limits) {
  if (comm.device_collectives() != nullptr) {
    comm_ = comm.split(0, comm.rank(), limits);
  } else {
    thread_.emplace(comm);
  }
  const c10::Device device(comm.device());
  if (!device.is_cpu()) {
    stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, /*isHighPriority=*/true);
  }
}

void BackgroundReducer::submit(Task task) {
  if (stream_) {
    auto ready = std::make_shared<c10::Event>(stream_->device_type());
    // The tasks' work comes after all work that the caller has enqueued.
    ready->record(current_stream(communicator().device()));
    task = [task = std::move(task), ready = std::move(ready), stream = *stream_](Communicator& comm) {
      const c10::StreamGuard guard(stream);
      ready->block(stream);
      task(comm);
    };
  }
  if (thread_) {
    thread_->submit(std::move(task));
  } else {
    task(*comm_);
  }
}

void BackgroundReducer::wait() {
  if (thread_) thread_->wait();
  if (!stream_) return;
  // On a GPU, the work that the caller enqueues next must come after the tasks' work. Therefore the caller's stream
  // waits for the tasks' stream; the host itself does not wait.
  c10::Event done(stream_->device_type());
  done.record(*stream_);
  done.block(current_stream(communicator().device()));
}

void BackgroundReducer::finish() {
  wait();
  if (!thread_) comm_->device_collectives()->wait();
}

}  // namespace mn
