#include <mn/nn/exported/call_arguments.hpp>

#include <optional>

#include <ATen/ScalarOps.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>

#include <mn/core/json.hpp>
#include <mn/nn/exported/argument.hpp>
#include <mn/nn/exported/enumerations.hpp>

namespace mn::exported {
namespace {

using c10::IValue;
using c10::TypeKind;
using c10::TypePtr;

TypePtr without_optional(const TypePtr& type) {
  const auto optional = type->cast<c10::OptionalType>();
  return optional ? without_optional(optional->getElementType()) : type;
}

[[noreturn]] void fail_to_fit(const std::string& given, const c10::Type& wanted) {
  throw UnknownForm(given + " where a " + wanted.str() + " is wanted");
}

/// Converts a value to an argument of type `type`, as Python's operators convert their arguments.
IValue fit(const IValue& value, const c10::Type& type) {
  switch (type.kind()) {
    case TypeKind::OptionalType:
      return value.isNone() ? value : fit(value, *type.castRaw<c10::OptionalType>()->getElementType());
    case TypeKind::TensorType:
      if (value.isTensor()) return value;
      if (value.isScalar()) return at::native::wrapped_scalar_tensor(value.toScalar());
      break;
    case TypeKind::NumberType:
      if (value.isScalar()) return value;
      break;
    case TypeKind::IntType:
      if (value.isInt()) return value;
      if (value.isBool()) return static_cast<std::int64_t>(value.toBool());
      break;
    case TypeKind::FloatType:
      if (value.isDouble()) return value;
      if (value.isInt()) return static_cast<double>(value.toInt());
      break;
    case TypeKind::BoolType:
      if (value.isBool()) return value;
      break;
    case TypeKind::StringType:
      if (value.isString()) return value;
      break;
    case TypeKind::DeviceObjType:
      if (value.isDevice()) return value;
      break;
    default:
      break;
  }
  fail_to_fit("a " + value.tagKind(), type);
}

template <class Item>
IValue typed_list(const std::vector<IValue>& items) {
  c10::List<Item> list;
  list.reserve(items.size());
  for (const IValue& item : items) list.push_back(item.to<Item>());
  return list;
}

IValue make_list(const std::vector<IValue>& items, const c10::Type& type) {
  switch (type.kind()) {
    case TypeKind::IntType:
      return typed_list<std::int64_t>(items);
    case TypeKind::FloatType:
      return typed_list<double>(items);
    case TypeKind::BoolType:
      return typed_list<bool>(items);
    case TypeKind::TensorType:
      return typed_list<at::Tensor>(items);
    case TypeKind::OptionalType:
      if (type.castRaw<c10::OptionalType>()->getElementType()->kind() == TypeKind::TensorType) {
        return typed_list<std::optional<at::Tensor>>(items);
      }
      break;
    default:
      break;
  }
  fail_to_fit("a list", type);
}

/// No value if the argument is not a constant.
std::optional<IValue> constant_of(const Argument& argument) {
  const auto& value = argument.value;
  if (std::holds_alternative<std::monostate>(value)) return IValue();
  if (const auto* flag = std::get_if<bool>(&value)) return IValue(*flag);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return IValue(*integer);
  if (const auto* real = std::get_if<double>(&value)) return IValue(*real);
  if (const auto* number = std::get_if<std::complex<double>>(&value)) return IValue(c10::complex<double>(*number));
  if (const auto* text = std::get_if<std::string>(&value)) return IValue(*text);
  if (const auto* enumerator = std::get_if<Enumerator>(&value)) return IValue(libtorch_number(*enumerator));
  return std::nullopt;
}

Source make_typed_source(const Argument& argument, const TypePtr& type, const Slots& slots);

Source make_list_source(const std::vector<Argument>& items, const TypePtr& item_type, const Slots& slots) {
  std::vector<Source> sources;
  for (const Argument& item : items) sources.push_back(make_typed_source(item, item_type, slots));
  (void)make_list({}, *item_type);  // throws if libtorch has no list of this type
  return [sources = std::move(sources), item_type](const Frame& frame) {
    std::vector<IValue> values;
    for (const Source& source : sources) values.push_back(source(frame));
    return make_list(values, *item_type);
  };
}

Source make_typed_source(const Argument& argument, const TypePtr& type, const Slots& slots) {
  if (const auto* value = std::get_if<ValueName>(&argument.value)) {
    return [slot = slots.of(value->name), type](const Frame& frame) { return fit(frame.values[slot], *type); };
  }
  if (const auto constant = constant_of(argument)) {
    return [value = fit(*constant, *type)](const Frame&) { return value; };
  }
  const TypePtr wanted = without_optional(type);
  if (std::holds_alternative<AnyDevice>(argument.value) && wanted->kind() == TypeKind::DeviceObjType) {
    return [](const Frame& frame) { return IValue(frame.device); };
  }
  const auto list = wanted->cast<c10::ListType>();
  const auto* items = std::get_if<std::vector<Argument>>(&argument.value);
  if (list && items != nullptr) return make_list_source(*items, list->getElementType(), slots);
  fail_to_fit("a value of the form " + argument.form, *type);
}

}  // namespace

std::size_t Slots::define(const std::string& name) {
  slots_[name] = count_;
  return count_++;
}

std::size_t Slots::of(const std::string& name) const {
  const auto found = slots_.find(name);
  if (found == slots_.end()) throw UnknownForm("the value " + json_quoted(name) + ", which nothing before it makes");
  return found->second;
}

Source make_source(const Argument& argument, const c10::Argument& parameter, const Slots& slots) {
  const auto list = without_optional(parameter.type())->cast<c10::ListType>();
  const bool is_one_item = !std::holds_alternative<std::vector<Argument>>(argument.value) &&
                           !std::holds_alternative<std::monostate>(argument.value);
  if (!list || !is_one_item) return make_typed_source(argument, parameter.type(), slots);
  const auto count = static_cast<std::size_t>(parameter.N().value_or(1));
  return make_list_source(std::vector<Argument>(count, argument), list->getElementType(), slots);
}

Source make_value_source(const Argument& argument, const Slots& slots) {
  if (const auto* value = std::get_if<ValueName>(&argument.value)) {
    return [slot = slots.of(value->name)](const Frame& frame) { return frame.values[slot]; };
  }
  if (const auto constant = constant_of(argument)) return [value = *constant](const Frame&) { return value; };
  throw UnknownForm("a value of the form " + argument.form + " that a graph within it is given");
}

Source make_number_source(const Argument& argument, const Slots& slots) {
  return make_typed_source(argument, c10::NumberType::get(), slots);
}

}  // namespace mn::exported
