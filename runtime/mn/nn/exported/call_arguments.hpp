/// Converts an operator's arguments, as the file holds them, to the arguments of libtorch's dispatcher.
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

/// The values of a running graph.
struct Frame {
  std::vector<c10::IValue> values;  ///< by slot
  c10::Device device;               ///< device on which the graph computes
};

/// Gives each value of a graph a slot: its index in Frame::values.
class Slots {
 public:
  /// Gives the value `name` a new slot. Call it once for each value.
  std::size_t define(const std::string& name);
  /// Throws UnknownForm if define() was not called for the value.
  [[nodiscard]] std::size_t of(const std::string& name) const;
  [[nodiscard]] std::size_t count() const noexcept { return count_; }

 private:
  std::unordered_map<std::string, std::size_t> slots_;
  std::size_t count_ = 0;
};

/// A source: makes one argument of an operator's call from the values of the running graph.
using Source = std::function<c10::IValue(const Frame& frame)>;

/// Returns a source that converts the argument to the parameter's type, as Python does: an integer may become a float,
/// a scalar, a tensor, or a list of equal integers. Throws UnknownForm if the argument can't have the type. The source
/// throws UnknownForm if a value of the graph has a wrong type.
[[nodiscard]] Source make_source(const Argument& argument, const c10::Argument& parameter, const Slots& slots);

/// Returns a source of the unconverted argument, which is a value of the graph or a constant that is not a list.
[[nodiscard]] Source make_value_source(const Argument& argument, const Slots& slots);

/// Returns a source of a number (int, float or bool). Throws as make_source() does.
[[nodiscard]] Source make_number_source(const Argument& argument, const Slots& slots);

}  // namespace mn::exported
