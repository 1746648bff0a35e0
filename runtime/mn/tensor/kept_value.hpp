/// Keeps a C++ value from forward() of an autograd function for its backward().
#pragma once

#include <utility>

#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>

namespace mn {

template <typename Value>
struct KeptValue : torch::CustomClassHolder {
  explicit KeptValue(Value given) : value(std::move(given)) {}
  Value value;
};

template <typename Value>
void keep_value(torch::autograd::AutogradContext* context, Value value) {
  context->saved_data["value"] = c10::IValue::make_capsule(c10::make_intrusive<KeptValue<Value>>(std::move(value)));
}

/// The value of keep_value(), of the same type. Valid as long as the function's node.
template <typename Value>
[[nodiscard]] const Value& kept_value(torch::autograd::AutogradContext* context) {
  return c10::static_intrusive_pointer_cast<KeptValue<Value>>(context->saved_data["value"].toCapsule())->value;
}

}  // namespace mn
