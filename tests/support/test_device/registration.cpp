// The device among libtorch's: its name, its hooks, automatic precision; and the count of host waits.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/Allocator.h>
#include <torch/library.h>

#include "tests/support/stand_in_gpu/calls.hpp"
#include "tests/support/stand_in_gpu/host_waits.hpp"
#include "tests/support/test_device/memory.hpp"
#include "tests/support/test_device/streams.hpp"
#include "tests/support/test_device/test_device.hpp"

namespace mn::test_device {
namespace {

constexpr std::uint64_t kSeed = 1;

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex /*index*/) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(stand_in::settings().gpus); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device().index(); }
  void setCurrentDevice(c10::DeviceIndex index) const override { check(cudaSetDevice(index), "cudaSetDevice"); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    static const std::vector<at::Generator> all = [] {
      std::vector<at::Generator> made;
      for (int device = 0; device < stand_in::settings().gpus; ++device) {
        made.push_back(at::detail::createCPUGenerator(kSeed));
      }
      return made;
    }();
    return all.at(static_cast<std::size_t>(index < 0 ? current_device().index() : index));
  }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator(); }
  bool isPinnedPtr(const void* memory) const override { return is_pinned(memory); }
  c10::Device getDeviceFromPtr(void* memory) const override {
    static_cast<void>(reach(memory, 1));  // as CUDA, which knows its own memory alone
    return current_device();
  }
};

struct Waits {
  std::mutex mutex;
  std::vector<HostWait> all;
};

Waits& waits() {
  static auto& all = *new Waits;
  return all;
}

void note_wait(const char* call) {
  HostWait wait{call, c10::get_lazy_backtrace(1, 64)};
  const std::lock_guard lock(waits().mutex);
  waits().all.push_back(std::move(wait));
}

/// Frames of a trace that say where the program is: "frame #5: mn::…(…) + 0x12 (0x… in …)" → "mn::…".
std::string shortened(const std::string& trace) {
  std::istringstream lines(trace);
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": ");
    const std::string frame = colon == std::string::npos ? line : line.substr(colon + 2);
    const bool tells = frame.starts_with("mn::") || frame.starts_with("at::") || frame.starts_with("torch::");
    if (!tells || frame.starts_with("mn::test_device::") || frame.starts_with("at::_ops::")) continue;
    text += (text.empty() ? "" : " < ") + frame.substr(0, frame.find('('));
  }
  return text;
}

void write_waits() {
  const char* const file = std::getenv("TEST_DEVICE_WAITS");
  std::ofstream(std::string(file) + "." + std::to_string(stand_in::settings().rank)) << describe(take_host_waits());
}

/// Before main(), so that whatever a program does first finds the device.
const bool is_installed = [] {
  c10::register_privateuse1_backend("test_device");
  c10::SetAllocator(kType, &device_allocator());
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  stand_in::observe_waits(note_wait);
  if (std::getenv("TEST_DEVICE_WAITS") != nullptr) static_cast<void>(std::atexit(write_waits));
  return true;
}();

}  // namespace

std::vector<HostWait> take_host_waits() {
  const std::lock_guard lock(waits().mutex);
  return std::exchange(waits().all, {});
}

std::string describe(const std::vector<HostWait>& waits) {
  std::map<std::string, int> times;
  for (const HostWait& wait : waits) ++times[wait.call + ": " + shortened(wait.stack->get())];
  std::string text;
  for (const auto& [what, count] : times) text += std::to_string(count) + " x " + what + "\n";
  return text;
}

// Automatic precision, with the lists that libtorch has for CUDA.
namespace {

using at::autocast::CastPolicy;

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
  AT_FORALL_LOWER_PRECISION_FP(LOWER)
#undef LOWER
#define FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
  AT_FORALL_FP32(FP32)
#undef FP32
#define FP32_SET_OPT_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
  AT_FORALL_FP32_SET_OPT_DTYPE(FP32_SET_OPT_DTYPE)
#undef FP32_SET_OPT_DTYPE
#define PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_PROMOTE(PROMOTE)
#undef PROMOTE
}

}  // namespace
}  // namespace mn::test_device
