/// A device for tests on which libtorch itself runs: PyTorch's PrivateUse1 backend over the stand-in for CUDA.
///
/// A program that links it has the device "test_device:K" beside "cpu", which mn takes for its GPUs. Memory comes from
/// cudaMalloc, so the host cannot read it; work runs late, in the order of streams and events alone.
///
/// Invariants:
/// 1. An operator checks and shapes its results at the call. What it computes, the CPU's kernel computes on the same
///    memory, when the stream comes to it. As a GPU's kernel, it knows addresses, and keeps no tensor alive.
/// 2. Memory that is freed serves the next allocation on the same stream at once, and is overwritten before, in the
///    order of the stream. Work on another stream that still reads it sees that, unless record_stream() was called.
/// 3. The host waits where it would on a GPU: values that it reads, copies that are not page-locked and non-blocking,
///    synchronizing. Each wait counts, with the stack that led to it.
///
/// TEST_DEVICE_WAITS=FILE: at its end, rank R writes what describe() says to FILE.R.
///
/// Not as on a GPU: which operators make up a fused one, how fast anything is, kernels that are not deterministic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <c10/util/Backtrace.h>

namespace mn::test_device {

struct HostWait {
  std::string call;  ///< CUDA's name of it
  c10::Backtrace stack;
};

/// Where threads of this process have waited for the device since the last call.
[[nodiscard]] std::vector<HostWait> take_host_waits();
/// A line for each kind of stack, with how often it came; of a stack only the functions of mn and of libtorch's API.
[[nodiscard]] std::string describe(const std::vector<HostWait>& waits);

/// Operators and copies that were enqueued so far.
[[nodiscard]] std::int64_t enqueued();

/// Bytes of tensors on the device: now, and at most since the last reset_peak().
struct MemoryUse {
  std::size_t bytes = 0;
  std::size_t peak_bytes = 0;
};
[[nodiscard]] MemoryUse memory_use();
void reset_peak();

}  // namespace mn::test_device
