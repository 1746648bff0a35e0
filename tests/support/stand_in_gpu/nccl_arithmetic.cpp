#include "tests/support/stand_in_gpu/nccl_arithmetic.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

namespace mn::stand_in {
namespace {

constexpr std::size_t kBlock = 64;  // elements that are reduced in the same order of ranks

/// bfloat16, rounded to nearest even.
class Brain {
 public:
  Brain() = default;
  explicit Brain(float value) {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (wide + 0x7fff + ((wide >> 16) & 1)) >> 16;
    bits_ = static_cast<std::uint16_t>(value == value ? rounded : (wide >> 16) | 0x40);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16); }

 private:
  std::uint16_t bits_ = 0;
};

/// What an operation on elements of T is computed in; unsigned integers wrap.
template <class T>
auto wide(T value) {
  if constexpr (std::is_same_v<T, Brain> || std::is_same_v<T, _Float16>)
    return static_cast<float>(value);
  else if constexpr (std::is_integral_v<T>)
    return static_cast<std::uint64_t>(value);
  else
    return value;
}

template <class T>
bool is_less(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return a < b;
  else
    return wide(a) < wide(b);
}

template <class T>
T apply(ncclRedOp_t op, T a, T b) {
  switch (op) {
    case ncclProd:
      return static_cast<T>(wide(a) * wide(b));
    case ncclMin:  // a NaN and a number give the number, as fminf()
      return is_less(b, a) || wide(a) != wide(a) ? b : a;
    case ncclMax:
      return is_less(a, b) || wide(a) != wide(a) ? b : a;
    default:
      return static_cast<T>(wide(a) + wide(b));
  }
}

template <class Body>
void with_type(ncclDataType_t type, const Body& body) {
  switch (type) {
    case ncclInt8:
      return body(std::int8_t{});
    case ncclUint8:
      return body(std::uint8_t{});
    case ncclInt32:
      return body(std::int32_t{});
    case ncclUint32:
      return body(std::uint32_t{});
    case ncclInt64:
      return body(std::int64_t{});
    case ncclUint64:
      return body(std::uint64_t{});
    case ncclFloat16:
      return body(_Float16{});
    case ncclFloat32:
      return body(float{});
    case ncclFloat64:
      return body(double{});
    default:
      return body(Brain{});
  }
}

}  // namespace

std::size_t size_of(ncclDataType_t type) {
  if (type < 0 || type > ncclBfloat16) return 0;
  std::size_t bytes = 0;
  with_type(type, [&](auto zero) { bytes = sizeof zero; });
  return bytes;
}

void reduce(std::byte* result, std::size_t count, ncclDataType_t type, ncclRedOp_t op, int ranks,
            const std::function<const std::byte*(int rank)>& values_of) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    auto* const results = reinterpret_cast<T*>(result);
    for (std::size_t first = 0; first < count; first += kBlock) {
      const std::size_t length = std::min(kBlock, count - first);
      const auto values = [&](int turn) {
        const int rank =
            static_cast<int>((first / kBlock + static_cast<std::size_t>(turn)) % static_cast<unsigned>(ranks));
        return reinterpret_cast<const T*>(values_of(rank)) + first;
      };
      std::copy_n(values(0), length, results + first);
      for (int turn = 1; turn < ranks; ++turn) {
        const T* const others = values(turn);
        for (std::size_t i = 0; i < length; ++i) {
          results[first + i] = apply(op, results[first + i], others[i]);
        }
      }
    }
  });
}

}  // namespace mn::stand_in
