/// Elements of every dtype with values that are exact in all dtypes: results can be compared for equality.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include <mn/core/buffer.hpp>
#include <mn/core/half.hpp>

namespace mn::testing {

inline const std::size_t kOddSizes[] = {0, 1, 7, 1027};

template <class T>
T element(int value) {
  return static_cast<T>(value);
}
template <>
inline Float16 element<Float16>(int value) {
  return to_float16(static_cast<float>(value));
}
template <>
inline BFloat16 element<BFloat16>(int value) {
  return to_bfloat16(static_cast<float>(value));
}

/// Any float, NaN and infinities too; T is a float type.
template <class T>
T element_of(float value) {
  if constexpr (std::is_same_v<T, Float16>)
    return to_float16(value);
  else if constexpr (std::is_same_v<T, BFloat16>)
    return to_bfloat16(value);
  else
    return static_cast<T>(value);
}

template <class T>
double number(T value) {
  return static_cast<double>(value);
}
inline double number(Float16 value) { return to_float(value); }
inline double number(BFloat16 value) { return to_float(value); }

/// Element `index` of `rank`: 0 to 6, different between ranks and neighbors.
inline int pattern(int rank, std::size_t index) {
  return static_cast<int>((index * 3 + static_cast<std::size_t>(rank) * 5) % 7);
}

template <class T, class Value>
std::vector<T> filled(std::size_t count, const Value& value) {
  std::vector<T> elements;
  for (std::size_t i = 0; i < count; ++i) elements.push_back(element<T>(value(i)));
  return elements;
}

template <class T>
std::vector<double> numbers(const std::vector<T>& elements) {
  std::vector<double> values;
  for (const T each : elements) values.push_back(number(each));
  return values;
}

/// Calls body.operator()<T>() for each element type that communicators move.
template <class Body>
void for_each_type(const Body& body) {
  const auto run = [&]<class T>() {
    SCOPED_TRACE(std::string(name_of(dtype_of<T>())));
    body.template operator()<T>();
  };
  run.template operator()<std::uint8_t>();
  run.template operator()<std::int8_t>();
  run.template operator()<std::int16_t>();
  run.template operator()<std::uint16_t>();
  run.template operator()<std::uint32_t>();
  run.template operator()<std::int32_t>();
  run.template operator()<std::int64_t>();
  run.template operator()<std::uint64_t>();
  run.template operator()<Float16>();
  run.template operator()<BFloat16>();
  run.template operator()<float>();
  run.template operator()<double>();
}

}  // namespace mn::testing
