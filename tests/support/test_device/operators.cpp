// All other operators: shapes at the call, numbers when the stream comes to it.
//
// Shapes come from libtorch's meta kernels. A program of C++ lacks those that Python brings; then from the CPU's kernel
// on zeros of the same shapes.
#include <functional>
#include <mutex>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/ones.h>
#include <torch/library.h>

#include "tests/support/test_device/tensors.hpp"
#include "tests/support/test_device/test_device.hpp"

namespace mn::test_device {
namespace {

using c10::IValue;
using torch::jit::Stack;
using Map = std::function<at::Tensor(const at::Tensor&)>;

std::optional<at::Tensor> mapped(const std::optional<at::Tensor>& tensor, const Map& map) {
  return tensor && tensor->defined() ? std::optional(map(*tensor)) : tensor;
}

/// The value with map(tensor) for each tensor in it, and on another device.
IValue with_tensors(const IValue& value, c10::DeviceType device, const Map& map) {
  if (value.isTensor()) return value.toTensor().defined() ? IValue(map(value.toTensor())) : value;
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& each : value.toTensorVector()) list.push_back(each.defined() ? map(each) : each);
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& each : value.toOptionalTensorVector()) list.push_back(mapped(each, map));
    return list;
  }
  if (value.isDevice() && value.toDevice().type() == kType) return c10::Device(device);
  return value;
}

void call_with(const c10::OperatorHandle& op, Stack& stack) {
  // Kernels that write into arguments return references to them, which libtorch reads after it has dropped the stack.
  const Stack held = stack;
  const at::AutoDispatchBelowAutograd no_autograd;
  op.callBoxed(&stack);
}

const std::string& name_of(const c10::OperatorHandle& op) { return op.schema().name(); }

/// Random numbers of an operator, from a seed that is drawn at the call: the order of streams does not count.
void give_generator(const c10::OperatorHandle& op, Stack& arguments, const c10::Device& device) {
  const auto& schema = op.schema();
  if (!op.hasTag(at::Tag::nondeterministic_seeded)) return;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (schema.arguments()[i].name() != "generator") continue;
    at::Generator given =
        arguments[i].isNone() ? at::globalContext().defaultGenerator(device) : arguments[i].toGenerator();
    const std::lock_guard lock(given.mutex());
    arguments[i] = at::detail::createCPUGenerator(at::check_generator<at::CPUGeneratorImpl>(given)->random64());
    return;
  }
  const bool makes_tensors =
      !schema.returns().empty() && schema.returns()[0].type()->isSubtypeOf(c10::TensorType::get());
  TORCH_CHECK(!makes_tensors, name_of(op), " takes no generator: the test device cannot repeat its numbers");
}

/// Whether the result's shape depends on values.
bool depends_on_values(const c10::OperatorHandle& op, const Stack& arguments) {
  if (op.hasTag(at::Tag::data_dependent_output)) return true;
  if (!op.hasTag(at::Tag::dynamic_output_shape)) return false;
  if (name_of(op) != "aten::index") return true;
  for (const std::optional<at::Tensor>& index : arguments[1].toOptionalTensorVector()) {
    if (index && index->defined() && (index->scalar_type() == at::kBool || index->scalar_type() == at::kByte)) {
      return true;
    }
  }
  return false;
}

c10::Device device_of(const Stack& arguments) {
  c10::Device found = current_device();
  for (const IValue& value : arguments) {
    static_cast<void>(with_tensors(value, kType, [&](const at::Tensor& tensor) {
      if (is_here(tensor)) found = tensor.device();
      return tensor;
    }));
  }
  return found;
}

/// As a kernel gets its arguments: addresses of the device's tensors, and numbers.
Stack for_kernel(const c10::OperatorHandle& op, const Stack& arguments) {
  Stack all;
  for (const IValue& value : arguments) {
    all.push_back(with_tensors(value, c10::kCPU, [&](const at::Tensor& tensor) {
      if (is_here(tensor)) return as_kernels_see(tensor);
      TORCH_CHECK(tensor.dim() == 0, name_of(op), ": a tensor on ", tensor.device(), " among those of the device");
      const at::Tensor number = tensor.detach().clone();
      keep_wrapped_number(tensor, number);
      return number;
    }));
  }
  return all;
}

/// Operators without a meta kernel.
bool lacks_meta(const c10::OperatorHandle& op, bool is_found_now) {
  static std::mutex mutex;
  static auto& known = *new std::unordered_set<c10::OperatorName>;
  const std::lock_guard lock(mutex);
  if (is_found_now) known.insert(op.operator_name());
  return known.contains(op.operator_name());
}

Stack shapes_on(c10::DeviceType device, const c10::OperatorHandle& op, const Stack& arguments) {
  Stack stack;
  for (const IValue& value : arguments) {
    stack.push_back(with_tensors(value, device, [&](const at::Tensor& tensor) {
      at::Tensor same = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(device));
      if (device == c10::kCPU) same.zero_();
      keep_wrapped_number(tensor, same);
      return same;
    }));
  }
  call_with(op, stack);
  return stack;
}

/// What the results look like.
Stack shapes_of(const c10::OperatorHandle& op, const Stack& arguments) {
  if (!lacks_meta(op, false)) {
    try {
      return shapes_on(c10::kMeta, op, arguments);
    } catch (const c10::Error&) {
    }
  }
  Stack shapes = shapes_on(c10::kCPU, op, arguments);  // an error of the program's is one here too
  lacks_meta(op, true);
  return shapes;
}

/// The argument that result i is, if it is one: written in place, or given for it.
std::optional<std::size_t> argument_of(const c10::FunctionSchema& schema, std::size_t i) {
  const c10::AliasInfo* const result = schema.returns()[i].alias_info();
  if (result == nullptr) return std::nullopt;
  TORCH_CHECK(result->isWrite(), schema.name(), " makes a view: it needs a kernel of the test device's own");
  for (std::size_t a = 0; a < schema.arguments().size(); ++a) {
    const c10::AliasInfo* const argument = schema.arguments()[a].alias_info();
    if (argument != nullptr && argument->beforeSets() == result->beforeSets()) return a;
  }
  TORCH_CHECK(false, schema.name(), ": no argument is its result");
}

struct Results {
  Stack values;
  std::vector<bool> is_new;
};

Results make_results(const c10::OperatorHandle& op, const Stack& arguments, c10::Device device) {
  const auto& schema = op.schema();
  Results results;
  if (schema.returns().empty()) return results;
  const Stack shapes = shapes_of(op, arguments);
  for (std::size_t i = 0; i < schema.returns().size(); ++i) {
    const auto argument = argument_of(schema, i);
    results.is_new.push_back(!argument);
    if (!argument) {
      results.values.push_back(with_tensors(shapes[i], kType, [&](const at::Tensor& shape) {
        return at::empty_strided(shape.sizes(), shape.strides(), shape.options().device(device));
      }));
      continue;
    }
    results.values.push_back(arguments[*argument]);
    if (!arguments[*argument].isTensor() || !shapes[i].isTensor()) continue;
    const at::Tensor& given = arguments[*argument].toTensor();
    if (given.sizes() != shapes[i].toTensor().sizes()) given.resize_(shapes[i].toTensor().sizes());
  }
  return results;
}

void put(const IValue& to, const IValue& from) {
  if (to.isTensor()) {
    if (to.toTensor().defined() && from.toTensor().defined()) to.toTensor().copy_(from.toTensor());
  } else if (to.isTensorList()) {
    const auto there = to.toTensorVector();
    const auto here = from.toTensorVector();
    for (std::size_t k = 0; k < there.size(); ++k) there[k].copy_(here[k]);
  }
}

Stack as_kernels_see_all(const Stack& values) {
  Stack all;
  for (const IValue& value : values) all.push_back(with_tensors(value, c10::kCPU, as_kernels_see));
  return all;
}

/// Shapes depend on values: the host waits, and goes on with what it has read.
void run_now(const c10::OperatorHandle& op, Stack* stack, Stack arguments, c10::Device device) {
  Stack host = for_kernel(op, arguments);
  synchronize(current_stream(device));
  call_with(op, host);
  torch::jit::drop(*stack, arguments.size());
  for (const IValue& value : host) {
    stack->push_back(with_tensors(value, kType, [&](const at::Tensor& tensor) {
      at::Tensor result = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(device));
      if (tensor.numel() > 0) {
        enqueue(current_stream(device), "result", [to = as_kernels_see(result), tensor] { to.copy_(tensor); });
      }
      return result;
    }));
  }
}

void run_late(const c10::OperatorHandle& op, Stack* stack) {
  Stack arguments(stack->end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size()), stack->end());
  const c10::Device device = device_of(arguments);
  const OnDevice scope(device);
  if (depends_on_values(op, arguments)) return run_now(op, stack, std::move(arguments), device);
  give_generator(op, arguments, device);
  Results results = make_results(op, arguments, device);
  enqueue(current_stream(device), name_of(op).c_str(),
          [op, given = for_kernel(op, arguments), to = as_kernels_see_all(results.values), is_new = results.is_new] {
            Stack host = given;
            call_with(op, host);
            for (std::size_t i = 0; i < to.size(); ++i) {
              if (is_new[i]) put(to[i], host[i]);
            }
          });
  torch::jit::drop(*stack, arguments.size());
  for (IValue& value : results.values) stack->push_back(std::move(value));
}

c10::OperatorHandle find(const char* name) { return c10::Dispatcher::singleton().findSchemaOrThrow(name, ""); }

// libtorch asks backends that it does not know for these two by names of their own.

void convolution(const c10::OperatorHandle& /*op*/, Stack* stack) { run_late(find("aten::convolution"), stack); }

void convolution_backward(const c10::OperatorHandle& /*op*/, Stack* stack) {
  const auto from_end = [&](std::size_t i) -> const IValue& { return (*stack)[stack->size() - i]; };
  const at::Tensor weight = from_end(8).toTensor();
  const std::int64_t channels = from_end(4).toBool() ? weight.size(1) * from_end(2).toInt() : weight.size(0);
  stack->insert(stack->end() - 7, IValue(c10::List<std::int64_t>({channels})));
  run_late(find("aten::convolution_backward"), stack);
}

/// The CPU's takes no generator, so that its numbers would depend on the order of streams.
std::tuple<at::Tensor, at::Tensor> dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  if (!train.value_or(true) || p == 0)
    return {input.clone(), at::ones(input.sizes(), input.options().dtype(at::kBool))};
  const at::Tensor mask = at::empty(input.sizes(), input.options().dtype(at::kBool)).bernoulli_(1 - p);
  return {input.mul(mask).mul_(p < 1 ? 1 / (1 - p) : 0), mask};
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_late>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution>());
  library.impl("convolution_backward_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution_backward>());
  library.impl("native_dropout", dropout);
}

}  // namespace

}  // namespace mn::test_device
