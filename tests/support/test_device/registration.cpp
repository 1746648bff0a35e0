// Makes the test device libtorch's accelerator, before main(), in every program that links this.
#include <map>
#include <mutex>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceType.h>

#include "tests/support/stand_in_gpu/calls.hpp"
#include "tests/support/test_device/generators.hpp"
#include "tests/support/test_device/memory.hpp"
#include "tests/support/test_device/streams.hpp"

namespace mn::test_device {
namespace {

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return deviceCount() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex /*device*/) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(stand_in::settings().gpus); }
  c10::DeviceIndex getCurrentDevice() const override { return with_index(c10::Device(kType)).index(); }
  void setCurrentDevice(c10::DeviceIndex device) const override { check(cudaSetDevice(device), "cudaSetDevice"); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const c10::DeviceIndex before = getCurrentDevice();
    setCurrentDevice(device);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return exchangeDevice(device); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_generator(with_index(c10::Device(kType, device)).index());
  }
  at::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator(); }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
};

[[maybe_unused]] const bool is_registered = [] {
  c10::register_privateuse1_backend("test_device");
  c10::SetAllocator(kType, &device_allocator());
  at::RegisterPrivateUse1HooksInterface(new Hooks);  // libtorch keeps it
  return true;
}();

}  // namespace

const at::Generator& default_generator(c10::DeviceIndex device) {
  static std::mutex mutex;
  static auto& all = *new std::map<c10::DeviceIndex, at::Generator>;
  const std::lock_guard lock(mutex);
  at::Generator& own = all[device];
  if (!own.defined()) own = at::make_generator<at::CPUGeneratorImpl>();
  return own;
}

}  // namespace mn::test_device
