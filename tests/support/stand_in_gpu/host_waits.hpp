/// Who wants to know where the host waits for a GPU.
#pragma once

namespace mn::stand_in {

/// Gets the name of the call, on the thread that makes it. Must not call CUDA.
using HostWaitObserver = void (*)(const char* call);

/// One for the process; null for none.
void observe_host_waits(HostWaitObserver observer);

/// From each call that waits for a GPU, that may wait (copies from pageable memory), or that asks whether it is done.
void host_waits(const char* call);

}  // namespace mn::stand_in
