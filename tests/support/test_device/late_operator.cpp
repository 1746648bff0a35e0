// (1) At the call nobody reads or writes the device's memory: shapes come from meta kernels or, where a C++ program lacks
//     those, from the CPU's kernel on zeros of the same sizes.
// (2) A kernel holds no tensor of the device, as a GPU's does not: what frees memory too early is seen.
// (3) Arguments on the host are numbers, which are taken at the call, or indices, which libtorch copies to the GPU.
// (4) Random numbers follow the order of the calls: each kernel has a generator that the device's own seeds.
#include "tests/support/test_device/late_operator.hpp"

#include <functional>
#include <optional>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/List.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "tests/support/stand_in_gpu/host_waits.hpp"
#include "tests/support/test_device/generators.hpp"
#include "tests/support/test_device/memory.hpp"
#include "tests/support/test_device/streams.hpp"

namespace mn::test_device {
namespace {

using torch::jit::Stack;
using OnTensor = std::function<at::Tensor(const at::Tensor&)>;

/// Kernels run below autograd and autocast.
class BelowAutograd {
  const c10::impl::ExcludeDispatchKeyGuard no_autograd_{c10::autograd_dispatch_keyset_with_ADInplaceOrView};
  const c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
  const at::NoGradGuard no_grad_;
};

/// The value with f(tensor) for each of its tensors, and another device for this one.
c10::IValue map(const c10::IValue& value, c10::DeviceType device, const OnTensor& f) {
  if (value.isTensor()) return value.toTensor().defined() ? c10::IValue(f(value.toTensor())) : value;
  if (value.isTensorList()) {
    std::vector<at::Tensor> mapped;
    for (const at::Tensor& tensor : value.toTensorVector()) mapped.push_back(tensor.defined() ? f(tensor) : tensor);
    return c10::List<at::Tensor>(mapped);
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> mapped;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      mapped.push_back(tensor && tensor->defined() ? std::optional(f(*tensor)) : tensor);
    }
    return mapped;
  }
  if (value.isDevice() && value.toDevice().type() == kType) return c10::Device(device);
  return value;
}

/// One call of an operator.
class Call {
 public:
  Call(const c10::OperatorHandle& op, const Stack& stack)
      : op_(op), schema_(op.schema()), args_(stack.end() - static_cast<std::ptrdiff_t>(count()), stack.end()) {
    find_device();
    take_generator();
  }
  [[nodiscard]] std::size_t count() const { return schema_.arguments().size(); }

  [[nodiscard]] bool depends_on_values() const {
    return op_.hasTag(at::Tag::dynamic_output_shape) || op_.hasTag(at::Tag::data_dependent_output);
  }
  /// The results, which a kernel that has been launched will fill.
  std::vector<c10::IValue> enqueue();
  /// The results, after a wait.
  std::vector<c10::IValue> wait_and_run();

 private:
  void find_device();
  void take_generator();
  [[nodiscard]] Stack run(c10::DeviceType device, const OnTensor& f) const;
  [[nodiscard]] Stack shapes() const;
  [[nodiscard]] c10::IValue result(std::size_t i, const c10::IValue& shape) const;
  [[nodiscard]] at::Tensor for_kernel(const at::Tensor& tensor) const;
  [[nodiscard]] std::size_t argument_of(const c10::AliasInfo& alias) const;
  [[nodiscard]] at::Tensor like(const at::Tensor& shape) const {
    return at::empty_strided(shape.sizes(), shape.strides(), shape.options().device(device_));
  }

  const c10::OperatorHandle op_;
  const c10::FunctionSchema& schema_;
  Stack args_;
  c10::Device device_{kType, -1};
};

void Call::find_device() {
  for (const c10::IValue& arg : args_) {
    if (arg.isDevice() && arg.toDevice().type() == kType) device_ = arg.toDevice();
    static_cast<void>(map(arg, kType, [&](const at::Tensor& tensor) {
      if (is_ours(tensor) && !device_.has_index()) device_ = tensor.device();
      return tensor;
    }));
  }
  device_ = with_index(device_);
}

/// (4)
void Call::take_generator() {
  for (std::size_t i = 0; i < count(); ++i) {
    if (schema_.arguments()[i].name() != "generator") continue;
    at::Generator own = args_[i].isNone() ? default_generator(device_.index()) : args_[i].toGenerator();
    const std::lock_guard lock(own.mutex());
    args_[i] = at::make_generator<at::CPUGeneratorImpl>(at::check_generator<at::CPUGeneratorImpl>(own)->random64());
  }
}

Stack Call::run(c10::DeviceType device, const OnTensor& f) const {
  const BelowAutograd below;
  Stack stack;
  for (const c10::IValue& arg : args_)
    stack.push_back(arg.isGenerator() ? arg.toGenerator().clone() : map(arg, device, f));
  const Stack kept =
      stack;  // a kernel with several out arguments returns references into the stack that it has dropped
  op_.callBoxed(&stack);
  return stack;
}

/// (1)
Stack Call::shapes() const {
  try {
    return run(c10::kMeta, [](const at::Tensor& tensor) {
      return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(c10::kMeta));
    });
  } catch (const c10::Error&) {
    return run(c10::kCPU, [](const at::Tensor& tensor) {
      return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(c10::kCPU)).zero_();
    });
  }
}

std::size_t Call::argument_of(const c10::AliasInfo& alias) const {
  for (std::size_t i = 0; i < count(); ++i) {
    const c10::AliasInfo* of = schema_.arguments()[i].alias_info();
    if (of != nullptr && !of->beforeSets().empty() && of->beforeSets() == alias.beforeSets()) return i;
  }
  TORCH_CHECK(false, "test device: ", schema_.name(), " returns an argument that its schema does not name");
}

/// A new tensor, an argument that is written, or a view of one.
c10::IValue Call::result(std::size_t i, const c10::IValue& shape) const {
  const c10::AliasInfo* alias = schema_.returns()[i].alias_info();
  if (alias == nullptr) return map(shape, kType, [&](const at::Tensor& tensor) { return like(tensor); });
  const c10::IValue& arg = args_[argument_of(*alias)];
  if (!arg.isTensor() || !shape.isTensor()) return arg;
  const at::Tensor &own = arg.toTensor(), &wanted = shape.toTensor();
  if (!alias->isWrite()) {
    return own.as_strided(wanted.sizes(), wanted.strides(), own.storage_offset() + wanted.storage_offset());
  }
  if (own.sizes() != wanted.sizes()) own.resize_(wanted.sizes());  // an out argument
  return arg;
}

void fill(const c10::IValue& result, const c10::IValue& computed) {
  const auto put = [](const at::Tensor& to, const at::Tensor& from) {
    if (to.defined() && from.defined() && to.numel() > 0) to.copy_(from);
  };
  if (result.isTensor()) return put(result.toTensor(), computed.toTensor());
  if (!result.isTensorList()) return;
  const auto to = result.toTensorVector(), from = computed.toTensorVector();
  for (std::size_t k = 0; k < to.size(); ++k) put(to[k], from[k]);
}

/// (2), (3)
at::Tensor Call::for_kernel(const at::Tensor& tensor) const {
  if (is_ours(tensor)) return on_device(tensor);
  if (tensor.dim() > 0) {
    TORCH_CHECK(schema_.name().find("index") != std::string::npos, "test device: ", schema_.name(),
                " got tensors of the CPU and of ", device_);
    stand_in::host_waits("copying indices to the device");
  }
  at::Tensor number = tensor.clone();
  number.unsafeGetTensorImpl()->set_wrapped_number(tensor.unsafeGetTensorImpl()->is_wrapped_number());
  return number;
}

std::vector<c10::IValue> Call::enqueue() {
  const Stack shapes = this->shapes();
  std::vector<c10::IValue> results;
  std::vector<std::optional<c10::IValue>> fresh;  // as the kernel sees them
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    results.push_back(result(i, shapes[i]));
    const c10::AliasInfo* alias = schema_.returns()[i].alias_info();
    if (alias != nullptr && !alias->isWrite()) return results;  // a view: nothing to compute
    fresh.push_back(alias == nullptr ? std::optional(map(results[i], c10::kCPU, on_device)) : std::nullopt);
  }
  Stack stack;
  for (const c10::IValue& arg : args_) {
    stack.push_back(map(arg, c10::kCPU, [this](const at::Tensor& tensor) { return for_kernel(tensor); }));
  }
  launch(device_, [op = op_, stack, fresh] {
    const BelowAutograd below;
    Stack computed = stack;
    op.callBoxed(&computed);
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      if (fresh[i]) fill(*fresh[i], computed[i]);
    }
  });
  return results;
}

std::vector<c10::IValue> Call::wait_and_run() {
  const OnDevice guard(device_.index());
  check(cudaStreamSynchronize(handle_of(current_stream(device_))), "cudaStreamSynchronize");
  const Stack computed =
      run(c10::kCPU, [](const at::Tensor& tensor) { return is_ours(tensor) ? on_device(tensor) : tensor; });
  std::vector<c10::IValue> results;
  for (std::size_t i = 0; i < computed.size(); ++i) {
    results.push_back(result(i, computed[i]));
    if (schema_.returns()[i].alias_info() == nullptr) fill(map(results[i], c10::kCPU, on_device), computed[i]);
  }
  return results;
}

}  // namespace

void run_late(const c10::OperatorHandle& op, Stack* stack) {
  Call call(op, *stack);
  std::vector<c10::IValue> results = call.depends_on_values() ? call.wait_and_run() : call.enqueue();
  torch::jit::drop(*stack, call.count());
  for (c10::IValue& result : results) stack->push_back(std::move(result));
}

}  // namespace mn::test_device
