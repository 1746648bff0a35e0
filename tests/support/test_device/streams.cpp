#include "tests/support/test_device/streams.hpp"

#include <array>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include <mn/tensor/native_stream.hpp>

#include "tests/support/stand_in_gpu/capture.hpp"
#include "tests/support/stand_in_gpu/cuda_call.hpp"
#include "tests/support/test_device/memory.hpp"
#include "tests/support/test_device/test_device.hpp"

namespace mn::test_device {
namespace {

constexpr int kPoolStreams = 4;  // of each priority; libtorch has 32
constexpr std::size_t kMaxDevices = 16;

std::atomic<std::int64_t> enqueued_count = 0;

/// Stream k + 1 of a device is streams[k]; 0 is the default stream. Never destroyed, as libtorch's are not.
struct Table {
  struct Pool {
    std::vector<c10::StreamId> ids;
    std::size_t next = 0;
  };
  std::mutex mutex;
  std::vector<cudaStream_t> streams;
  std::map<std::pair<c10::DeviceIndex, int>, Pool> pools;
};

Table& table() {
  static auto& all = *new Table;
  return all;
}

c10::StreamId add_stream(Table& all, c10::Device device, int priority) {
  const OnDevice scope(device);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority), "cudaStreamCreateWithPriority");
  all.streams.push_back(stream);
  return static_cast<c10::StreamId>(all.streams.size());
}

c10::Stream stream_of(c10::Device device, c10::StreamId id) { return c10::Stream(c10::Stream::UNSAFE, device, id); }

std::array<c10::StreamId, kMaxDevices>& current_ids() {
  static thread_local std::array<c10::StreamId, kMaxDevices> ids = {};
  return ids;
}

c10::Device with_index(c10::Device device) { return device.has_index() ? device : current_device(); }

cudaEvent_t as_event(void* event) { return static_cast<cudaEvent_t>(event); }

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = current_device();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return current_device(); }
  void setDevice(c10::Device device) const override {
    if (device.has_index()) check(cudaSetDevice(device.index()), "cudaSetDevice");
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) static_cast<void>(cudaSetDevice(device.index()));
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(stand_in::settings().gpus);
  }

  c10::Stream getStream(c10::Device device) const override { return current_stream(device); }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream_of(with_index(device), 0); }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    device = with_index(device);
    const std::lock_guard lock(table().mutex);
    return stream_of(device, add_stream(table(), device, priority));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool is_high_priority) const override {
    device = with_index(device);
    const std::lock_guard lock(table().mutex);
    const int priority = is_high_priority ? stand_in::kHighestPriority : stand_in::kLowestPriority;
    Table::Pool& pool = table().pools[{device.index(), priority}];
    if (pool.ids.size() < kPoolStreams) pool.ids.push_back(add_stream(table(), device, priority));
    return stream_of(device, pool.ids[pool.next++ % kPoolStreams]);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    c10::StreamId& id = current_ids().at(static_cast<std::size_t>(stream.device_index()));
    return stream_of(stream.device(), std::exchange(id, stream.id()));
  }
  bool queryStream(const c10::Stream& stream) const override {
    const OnDevice scope(stream.device());
    return cudaStreamQuery(handle_of(stream)) == cudaSuccess;
  }
  void synchronizeStream(const c10::Stream& stream) const override { synchronize(stream); }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    const OnDevice scope(c10::Device(kType, index));
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex /*index*/,
              const c10::EventFlag flag) const override {
    const OnDevice scope(stream.device());
    if (*event == nullptr) {
      cudaEvent_t made = nullptr;
      const unsigned flags = flag == c10::EventFlag::BACKEND_DEFAULT ? 0 : cudaEventDisableTiming;
      check(cudaEventCreateWithFlags(&made, flags), "cudaEventCreateWithFlags");
      *event = made;
    }
    check(cudaEventRecord(as_event(*event), handle_of(stream)), "cudaEventRecord");
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    const OnDevice scope(stream.device());
    check(cudaStreamWaitEvent(handle_of(stream), as_event(event), 0), "cudaStreamWaitEvent");
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || cudaEventQuery(as_event(event)) == cudaSuccess;
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) check(cudaEventSynchronize(as_event(event)), "cudaEventSynchronize");
  }
  double elapsedTime(void* begin, void* end, const c10::DeviceIndex /*index*/) const override {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, as_event(begin), as_event(end)), "cudaEventElapsedTime");
    return milliseconds;
  }
  void destroyEvent(void* event, const c10::DeviceIndex /*index*/) const noexcept override {
    if (event != nullptr) static_cast<void>(cudaEventDestroy(as_event(event)));
  }
  void recordDataPtrOnStream(const c10::DataPtr& memory, const c10::Stream& stream) const override {
    record_use(memory, stream);
  }
};

const c10::impl::DeviceGuardImplRegistrar registrar(kType, new Guard);

}  // namespace

void check(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  TORCH_CHECK(false, call, " failed on the test device: ", cudaGetErrorName(code));
}

c10::Device current_device() {
  int index = 0;
  check(cudaGetDevice(&index), "cudaGetDevice");
  return {kType, static_cast<c10::DeviceIndex>(index)};
}

c10::Stream current_stream(c10::Device device) {
  device = with_index(device);
  return stream_of(device, current_ids().at(static_cast<std::size_t>(device.index())));
}

cudaStream_t handle_of(const c10::Stream& stream) {
  if (stream.id() == 0) return nullptr;
  const std::lock_guard lock(table().mutex);
  return table().streams.at(static_cast<std::size_t>(stream.id() - 1));
}

void enqueue(const c10::Stream& stream, const char* what, std::function<void()> work) {
  ++enqueued_count;
  const stand_in::Op op = [what, work = std::move(work)] {
    try {
      work();
    } catch (const std::exception& error) {
      stand_in::complain(std::string(what) + ": " + error.what());
      static_cast<void>(stand_in::keep(cudaErrorLaunchFailure));
    }
  };
  const auto submit = [&] { return stand_in::submit(handle_of(stream), stream.device_index(), [op] { return op; }); };
  check(stand_in::cuda_call("cudaLaunchKernel", cudaErrorLaunchOutOfResources, submit), "cudaLaunchKernel");
}

void synchronize(const c10::Stream& stream) {
  const OnDevice scope(stream.device());
  check(cudaStreamSynchronize(handle_of(stream)), "cudaStreamSynchronize");
}

OnDevice::OnDevice(c10::Device device) : before_(current_device().index()) {
  check(cudaSetDevice(device.index()), "cudaSetDevice");
}

OnDevice::~OnDevice() { static_cast<void>(cudaSetDevice(before_)); }

std::int64_t enqueued() { return enqueued_count; }

}  // namespace mn::test_device

// In place of the library's, which asks libtorch: libtorch before 2.11 knows CUDA's streams only.
void* mn::native_stream(const c10::Stream& stream) { return test_device::handle_of(stream); }
