/// From the arguments that a file has for an operator to those that libtorch's dispatcher takes.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

#include <mn/nn/exported/argument.hpp>

namespace mn::exported {

/// A graph while it runs.
struct Frame {
  std::vector<c10::IValue> values;  ///< by slot
  c10::Device device;               ///< where it computes
};

/// Where in a frame the values of a graph lie.
class Slots {
 public:
  /// The slot of a value that nothing has made yet.
  std::size_t define(const std::string& name);
  /// Throws UnknownForm for a value that nothing before has made.
  [[nodiscard]] std::size_t of(const std::string& name) const;
  [[nodiscard]] std::size_t count() const noexcept { return count_; }

 private:
  std::unordered_map<std::string, std::size_t> slots_;
  std::size_t count_ = 0;
};

/// Makes one argument of a call.
using Source = std::function<c10::IValue(const Frame& frame)>;

/// The argument as the parameter's type wants it, with Python's conversions: an integer is a float, a scalar or a
/// tensor where one of these is wanted, and as many times itself as a list needs. Throws UnknownForm if it has no such
/// form; the source does so when a value of the graph turns out to be of another type.
[[nodiscard]] Source make_source(const Argument& argument, const c10::Argument& parameter, const Slots& slots);

/// The argument as it is: a value of the graph or a constant that is not a list.
[[nodiscard]] Source make_value_source(const Argument& argument, const Slots& slots);

/// The same as make_source() for a number (int, float or bool).
[[nodiscard]] Source make_number_source(const Argument& argument, const Slots& slots);

}  // namespace mn::exported
