#include "tests/support/test_device/streams.hpp"

#include <array>
#include <map>
#include <mutex>

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include "tests/support/stand_in_gpu/calls.hpp"
#include "tests/support/stand_in_gpu/capture.hpp"
#include "tests/support/stand_in_gpu/cuda_call.hpp"
#include "tests/support/test_device/memory.hpp"

namespace mn::test_device {
namespace {

c10::Stream stream_of(cudaStream_t handle, c10::Device device) {
  return c10::Stream(c10::Stream::UNSAFE, device, reinterpret_cast<c10::StreamId>(handle));
}

/// The calling thread's current streams, by device; absent: the default stream.
std::map<c10::DeviceIndex, c10::Stream>& current_streams() {
  static thread_local std::map<c10::DeviceIndex, c10::Stream> streams;
  return streams;
}

/// As libtorch has for CUDA: a few streams of each priority, taken in turn, which live as long as the process.
class StreamPool {
 public:
  c10::Stream next(c10::Device device, bool high_priority) {
    const std::lock_guard lock(mutex_);
    Turn& turn = turns_[{device.index(), high_priority}];
    cudaStream_t& stream = turn.streams[turn.next++ % turn.streams.size()];
    if (stream == nullptr) {
      const OnDevice guard(device.index());
      check(
          cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, high_priority ? stand_in::kHighestPriority : 0),
          "cudaStreamCreateWithPriority");
    }
    return stream_of(stream, device);
  }

 private:
  struct Turn {
    std::array<cudaStream_t, 8> streams = {};
    std::size_t next = 0;
  };
  std::mutex mutex_;
  std::map<std::pair<c10::DeviceIndex, bool>, Turn> turns_;
};

StreamPool& pool() {
  static auto& all = *new StreamPool;
  return all;
}

cudaEvent_t as_event(void* event) { return static_cast<cudaEvent_t>(event); }

/// Devices, streams and events as libtorch asks for them.
class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  Guard() = default;
  explicit Guard(c10::DeviceType /*type*/) {}

  c10::DeviceType type() const override { return kType; }
  c10::Device getDevice() const override {
    int index = 0;
    check(cudaGetDevice(&index), "cudaGetDevice");
    return {kType, static_cast<c10::DeviceIndex>(index)};
  }
  void setDevice(c10::Device device) const override { check(cudaSetDevice(device.index()), "cudaSetDevice"); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    static_cast<void>(cudaSetDevice(device.index()));
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    if (device != before) setDevice(device);
    return before;
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(stand_in::settings().gpus);
  }

  c10::Stream getStream(c10::Device device) const override { return current_stream(with_index(device)); }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream_of(nullptr, with_index(device)); }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return pool().next(with_index(device), priority < 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return pool().next(with_index(device), high_priority);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = current_stream(stream.device());
    current_streams().insert_or_assign(stream.device_index(), stream);
    return before;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return handle_of(stream); }
  bool queryStream(const c10::Stream& stream) const override {
    const cudaError_t code = cudaStreamQuery(handle_of(stream));
    if (code != cudaErrorNotReady) check(code, "cudaStreamQuery");
    return code == cudaSuccess;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    const OnDevice guard(stream.device_index());
    check(cudaStreamSynchronize(handle_of(stream)), "cudaStreamSynchronize");
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override {
    const OnDevice guard(device);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex /*device*/,
              const c10::EventFlag /*flag*/) const override {
    const OnDevice guard(stream.device_index());
    if (*event == nullptr) {
      cudaEvent_t made = nullptr;
      check(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "cudaEventCreateWithFlags");
      *event = made;
    }
    check(cudaEventRecord(as_event(*event), handle_of(stream)), "cudaEventRecord");
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;  // never recorded
    const OnDevice guard(stream.device_index());
    check(cudaStreamWaitEvent(handle_of(stream), as_event(event), 0), "cudaStreamWaitEvent");
  }
  bool queryEvent(void* event) const override {
    if (event == nullptr) return true;
    const cudaError_t code = cudaEventQuery(as_event(event));
    if (code != cudaErrorNotReady) check(code, "cudaEventQuery");
    return code == cudaSuccess;
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) check(cudaEventSynchronize(as_event(event)), "cudaEventSynchronize");
  }
  void destroyEvent(void* event, const c10::DeviceIndex /*device*/) const noexcept override {
    if (event != nullptr) static_cast<void>(cudaEventDestroy(as_event(event)));
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    record_stream(data, stream);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

}  // namespace

void check(cudaError_t code, const char* call) {
  TORCH_CHECK(code == cudaSuccess, "test device: ", call, ": ", cudaGetErrorName(code));
}

OnDevice::OnDevice(c10::DeviceIndex index) : before_(stand_in::current_device()) { stand_in::current_device() = index; }

OnDevice::~OnDevice() { stand_in::current_device() = before_; }

c10::Device with_index(c10::Device device) {
  if (device.has_index()) return device;
  return {kType, static_cast<c10::DeviceIndex>(stand_in::current_device())};
}

cudaStream_t handle_of(c10::Stream stream) { return reinterpret_cast<cudaStream_t>(stream.id()); }

c10::Stream current_stream(c10::Device device) {
  const auto found = current_streams().find(device.index());
  return found == current_streams().end() ? stream_of(nullptr, device) : found->second;
}

void launch(c10::Device device, stand_in::Op kernel) {
  const stand_in::Op op = [kernel = std::move(kernel)] {
    try {
      kernel();
    } catch (const std::exception& error) {
      stand_in::complain(std::string("a kernel of libtorch failed: ") + error.what());
      stand_in::keep(cudaErrorLaunchFailure);
    }
  };
  const cudaStream_t stream = handle_of(current_stream(device));
  check(stand_in::submit(stream, device.index(), [op] { return op; }), "launching a kernel");
}

std::vector<stand_in::Mark> pending(c10::Stream stream) {
  const auto lock = stand_in::machine().lock();
  return stand_in::machine().pending(stand_in::machine().find(handle_of(stream), stream.device_index()));
}

}  // namespace mn::test_device
