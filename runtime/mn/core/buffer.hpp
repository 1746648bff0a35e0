/// The arguments of communicator calls: views of typed elements in host or device memory.
#pragma once

#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>

namespace mn {

/// The type of an element. kBool is one byte and cannot be reduced. Shards store these numbers, so add new types at the
/// end, and count them in kDTypeCount.
enum class DType : std::uint8_t {
  kUInt8,
  kInt32,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kBool,
  kInt8,
  kUInt64,
  kInt16,
  kUInt16,
  kUInt32
};
/// Number of types in DType: the length of tables that have the order of DType.
inline constexpr std::size_t kDTypeCount = 13;
static_assert(static_cast<std::size_t>(DType::kUInt32) + 1 == kDTypeCount);

/// Bytes of one element.
[[nodiscard]] std::size_t size_of(DType dtype) noexcept;
/// The name of a dtype, for example "float32".
[[nodiscard]] std::string_view name_of(DType dtype) noexcept;
/// The dtype called `name`, as name_of() writes it; no value for an unknown name.
[[nodiscard]] std::optional<DType> dtype_named(std::string_view name) noexcept;

/// How a reduction combines elements. Integer overflow wraps around. Integers have no average.
enum class ReduceOp : std::uint8_t { kSum, kProd, kMin, kMax, kAverage };
/// The name of a reduction, for example "sum".
[[nodiscard]] std::string_view name_of(ReduceOp op) noexcept;

/// An IEEE 754 binary16 number, given by its bits. Use this type for spans; for tensors use libtorch's own type.
struct Float16 {
  std::uint16_t bits;  ///< sign, 5 bits of exponent, 10 of fraction
};
/// A bfloat16 number, given by its bits: the upper half of a float32.
struct BFloat16 {
  std::uint16_t bits;  ///< sign, 8 bits of exponent, 7 of fraction
};

/// Kind of device on which memory lies.
enum class DeviceType : std::uint8_t { kCpu, kCuda };

struct Device;

/// Specialize DeviceTraits for a different library's device type: from(Device) converts to that type.
/// <mn/tensor/tensor.hpp> has the specialization for c10::Device.
template <class T>
struct DeviceTraits;

/// Satisfied by a type of a different library for which DeviceTraits is specialized.
template <class T>
concept ForeignDevice = requires(const Device& device) {
  { DeviceTraits<T>::from(device) } -> std::same_as<T>;
};

/// The device on which memory lies: the CPU (host memory), or a GPU.
struct Device {
  DeviceType type = DeviceType::kCpu;  ///< the CPU or a GPU
  int index = 0;                       ///< index of the GPU among the GPUs visible to the process

  /// Parses "cpu", "cuda" or "cuda:K", where K is the number of a GPU. Throws a UsageError for any other text.
  [[nodiscard]] static Device parse(std::string_view text);
  /// Returns the device as a text that parse() can read, for example "cuda:0".
  [[nodiscard]] std::string str() const;
  /// True if the two devices have the same type and the same index.
  bool operator==(const Device&) const = default;

  /// Converts to a different library's device type, for calls like `model->to(comm->device())`.
  template <ForeignDevice T>
  operator T() const {  // NOLINT: meant to be implicit
    return DeviceTraits<T>::from(*this);
  }
};

/// The dtype of elements of type T. Does not compile if DType has no such type.
template <class T>
consteval DType dtype_of() {
  using U = std::remove_const_t<T>;
  if constexpr (std::is_same_v<U, Float16>)
    return DType::kFloat16;
  else if constexpr (std::is_same_v<U, BFloat16>)
    return DType::kBFloat16;
  else if constexpr (std::is_same_v<U, float>)
    return DType::kFloat32;
  else if constexpr (std::is_same_v<U, double>)
    return DType::kFloat64;
  else if constexpr (std::is_same_v<U, bool>)
    return DType::kBool;
  else if constexpr (std::is_same_v<U, std::int8_t>)
    return DType::kInt8;
  else if constexpr (std::is_integral_v<U> && sizeof(U) == 8)
    return std::is_signed_v<U> ? DType::kInt64 : DType::kUInt64;
  else if constexpr (std::is_integral_v<U> && sizeof(U) == 4)
    return std::is_signed_v<U> ? DType::kInt32 : DType::kUInt32;
  else if constexpr (std::is_same_v<U, std::int16_t>)
    return DType::kInt16;
  else if constexpr (std::is_same_v<U, std::uint16_t>)
    return DType::kUInt16;
  else if constexpr (sizeof(U) == 1)
    return DType::kUInt8;  // char and std::byte too
  else
    static_assert(sizeof(U) == 0, "no mn::DType for this element type");
}

/// True if elements of this dtype are floats of any size.
[[nodiscard]] constexpr bool is_float(DType dtype) {
  return dtype >= DType::kFloat16 && dtype <= DType::kFloat64;  // the float types are neighbors in DType
}
/// If `dtype` is a float type, calls use(T()), where T is the element type, and returns the result. For all other
/// dtypes returns a default value.
template <class Use>
auto for_float_type(DType dtype, const Use& use) -> decltype(use(float())) {
  if (dtype == DType::kFloat16) return use(Float16());
  if (dtype == DType::kBFloat16) return use(BFloat16());
  if (dtype == DType::kFloat32) return use(float());
  if (dtype == DType::kFloat64) return use(double());
  return {};
}

/// Specialize BufferTraits for types that are not contiguous ranges: view() returns the data, count, dtype and device.
/// <mn/tensor/tensor.hpp> has the specialization for at::Tensor.
template <class T>
struct BufferTraits;

/// Satisfied by a type for which BufferTraits is specialized.
template <class T>
concept BufferSource = requires(T& value) {
  BufferTraits<std::remove_cvref_t<T>>::view(value);
};

/// A view of `count` elements in memory. The view does not own the memory, which must outlive the communicator call.
/// `Void` is void, or const void if the call only reads the elements.
///
/// If the memory is on a device, the work of a call begins after all work that `stream` (a cudaStream_t) holds at the
/// time of the call. A null `stream` means the legacy default stream. This is the meaning of a stream in the CUDA Array
/// Interface, version 3.
template <class Void>
struct BasicBufferView {
  static constexpr bool kIsConst = std::is_const_v<Void>;  ///< true if calls only read the elements

  Void* data = nullptr;         ///< address of the elements on `device`; may be null if `count` is 0
  std::size_t count = 0;        ///< number of elements, not of bytes
  DType dtype = DType::kUInt8;  ///< dtype of the elements
  Device device = {};           ///< where the memory lies
  void* stream = nullptr;       ///< a stream of `device`; ignored for host memory

  /// A view of no elements.
  BasicBufferView() = default;
  /// A view of memory at a given address.
  BasicBufferView(Void* data_, std::size_t count_, DType dtype_, Device device_ = {}, void* stream_ = nullptr)
      : data(data_), count(count_), dtype(dtype_), device(device_), stream(stream_) {}
  /// Converts a writable view to a read-only view.
  template <class Other>
  requires(kIsConst&& std::is_same_v<Other, void>)
      BasicBufferView(const BasicBufferView<Other>& view)  // NOLINT: meant to be implicit
      : BasicBufferView(view.data, view.count, view.dtype, view.device, view.stream) {}
  /// A view of a span, vector or array on the host.
  template <std::ranges::contiguous_range R>
  requires(kIsConst || !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>)
      BasicBufferView(R&& range)  // NOLINT: meant to be implicit
      : BasicBufferView(std::ranges::data(range), std::ranges::size(range), dtype_of<std::ranges::range_value_t<R>>()) {
  }
  /// A view of a tensor, or of a different type for which BufferTraits is specialized.
  template <BufferSource T>
  BasicBufferView(T&& value)  // NOLINT: meant to be implicit
      : BasicBufferView(BasicBufferView<void>(BufferTraits<std::remove_cvref_t<T>>::view(value))) {}

  /// The size of all elements in bytes.
  [[nodiscard]] std::size_t bytes() const noexcept { return count * size_of(dtype); }
  /// A view of the elements [first, first + length), which must exist.
  [[nodiscard]] BasicBufferView slice(std::size_t first, std::size_t length) const {
    assert(first <= count && length <= count - first);
    using Byte = std::conditional_t<kIsConst, const std::byte, std::byte>;
    return {static_cast<Byte*>(data) + first * size_of(dtype), length, dtype, device, stream};
  }
  /// A view of the same elements, with `other` as the stream.
  [[nodiscard]] BasicBufferView on_stream(void* other) const { return {data, count, dtype, device, other}; }
};

using BufferView = BasicBufferView<void>;             ///< elements that a call may write
using ConstBufferView = BasicBufferView<const void>;  ///< elements that a call only reads

}  // namespace mn
