#include "tests/comm/programs/memory.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "tests/comm/values.hpp"

namespace mn::testing {
namespace {

constexpr std::size_t kMargin = 64;  // bytes on either side
constexpr std::byte kUntouched{0xA5};

template <class T>
std::vector<std::byte> encoded_as(const Values& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value = element<T>(values[i]);
    if constexpr (!std::is_integral_v<T>) {
      if (values[i] == kNaN) value = element_of<T>(std::numeric_limits<float>::quiet_NaN());
    }
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

/// Any NaN counts: expected bits of a NaN are replaced by the actual ones.
template <class T>
void unify_nans(std::vector<std::byte>& bytes, std::size_t first, const std::vector<std::byte>& expected) {
  for (std::size_t at = first; at < expected.size() - first; at += sizeof(T)) {
    T value;
    T other;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    std::memcpy(&other, expected.data() + at, sizeof(T));
    if (std::isnan(number(value)) && std::isnan(number(other))) std::memcpy(bytes.data() + at, &other, sizeof(T));
  }
}

std::vector<std::byte> with_margins(const std::vector<std::byte>& inside) {
  std::vector<std::byte> all(inside.size() + 2 * kMargin, kUntouched);
  std::ranges::copy(inside, all.begin() + kMargin);
  return all;
}

std::vector<std::byte> encoded(DType dtype, const Values& values) {
  if (dtype == DType::kBool) return encoded_as<std::uint8_t>(values);  // whatever their bits
  std::vector<std::byte> bytes;
  for_each_type([&]<class T>() {
    if (dtype_of<T>() == dtype) bytes = encoded_as<T>(values);
  });
  return bytes;
}

}  // namespace

Memory::Memory(DType dtype, const Values& values, Device device)
    : dtype_(dtype), count_(values.size()), device_(device) {
  const std::vector<std::byte> all = with_margins(encoded(dtype, values));
  if (device.type == DeviceType::kCpu)
    host_ = std::make_unique<std::byte[]>(all.size());
  else
    on_device_ = cuda_allocate(all.size());
  set(all);
}

BufferView Memory::view() const {
  return {(host_ ? host_.get() : on_device_.get()) + kMargin, count_, dtype_, device_};
}

void Memory::expect(const Values& values) const {
  const std::vector<std::byte> expected = with_margins(encoded(dtype_, values));
  std::vector<std::byte> all = bytes();
  ASSERT_EQ(all.size(), expected.size());
  for_each_type([&]<class T>() {
    if constexpr (!std::is_integral_v<T>) {
      if (dtype_of<T>() == dtype_) unify_nans<T>(all, kMargin, expected);
    }
  });
  EXPECT_TRUE(all == expected) << "wrong values, or something beside them was written to";
}

void Memory::retire() {
  set(std::vector<std::byte>(bytes().size(), kUntouched));
  is_retired_ = true;
}

bool Memory::is_untouched() const {
  return !is_retired_ || std::ranges::all_of(bytes(), [](std::byte each) { return each == kUntouched; });
}

std::vector<std::byte> Memory::bytes() const {
  std::vector<std::byte> all(view().bytes() + 2 * kMargin);
  if (host_) {
    std::memcpy(all.data(), host_.get(), all.size());
  } else {
    CudaStream stream(device_.index);
    stream.copy_to_host(all.data(), on_device_.get(), all.size());
    stream.synchronize();
  }
  return all;
}

void Memory::set(const std::vector<std::byte>& bytes) const {
  if (host_) {
    std::memcpy(host_.get(), bytes.data(), bytes.size());
  } else {
    CudaStream stream(device_.index);
    stream.copy_to_device(on_device_.get(), bytes.data(), bytes.size());
    stream.synchronize();
  }
}

Memory& Memories::keep(const Action& action, const Values& values) {
  const Device device = action.on_device ? device_ : Device();
  return *all_.emplace_back(std::make_unique<Memory>(action.dtype, values, device));
}

void Memories::expect_untouched() const {
  for (const auto& each : all_) EXPECT_TRUE(each->is_untouched()) << "a buffer was written to after its call";
}

}  // namespace mn::testing
