// libtorch is compiled with NDEBUG. Without NDEBUG its header would give RecordFunction another layout.
#ifndef NDEBUG
#define NDEBUG
#endif

#include "tests/support/operator_count.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>

namespace mn::test {
namespace {

using Names = std::set<std::string>;

c10::DeviceType counted_device = c10::kCPU;
std::map<std::string, OperatorTraffic> counted;

bool is_arithmetic(const std::string& name) {
  static const Names names = {"aten::mm",
                              "aten::addmm",
                              "aten::bmm",
                              "aten::baddbmm",
                              "aten::convolution",
                              "aten::convolution_backward",
                              "aten::_scaled_dot_product_flash_attention_for_cpu",
                              "aten::_scaled_dot_product_flash_attention_for_cpu_backward"};
  return names.contains(name);
}

/// True for an operator that is one kernel on GPUs, and calls others on the CPU or on the test device.
bool is_whole(const std::string& name) {
  static const Names names = {"aten::native_dropout", "aten::native_batch_norm", "aten::native_batch_norm_backward",
                              "aten::sum", "aten::linalg_vector_norm"};
  static const Names of_mn = {"mn::token_loss",          "mn::scale_rows",         "mn::norm_forward",
                              "mn::norm_backward",       "mn::batch_norm_forward", "mn::batch_norm_sums",
                              "mn::batch_norm_backward", "mn::gelu_backward"};
  return is_arithmetic(name) || names.contains(name) || name.starts_with("aten::_foreach_") ||
         name.starts_with("aten::_fused_") || (counted_device == c10::kCPU && of_mn.contains(name));
}

/// True for an operator that looks up a few elements of its arguments.
bool reads_little(const std::string& name) {
  return name == "aten::embedding" || name == "aten::nll_loss_forward" || name == "aten::nll_loss_backward";
}

bool only_allocates(const std::string& name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty") || name == "aten::resize_";
}

template <class Use>
void for_each_tensor(const c10::IValue& value, const Use& use) {
  const auto use_strided = [&](const at::Tensor& tensor) {
    if (tensor.defined() && tensor.layout() == at::kStrided) use(tensor);
  };
  if (value.isTensor()) {
    use_strided(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& each : value.toTensorVector()) use_strided(each);
  } else if (value.isOptionalTensorList()) {
    for (const auto& each : value.toOptionalTensorVector()) use_strided(each.value_or(at::Tensor()));
  }
}

double bytes_of(const at::Tensor& tensor) {
  auto bytes = static_cast<double>(tensor.element_size());
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.stride(d) != 0 || tensor.size(d) == 0) bytes *= static_cast<double>(tensor.size(d));
  }
  return bytes;
}

/// A call of an operator that has begun.
struct Call : at::ObserverContext {
  std::string name;
  Call* caller = nullptr;
  bool is_part = false;    // of an operator that counts as one
  bool has_parts = false;  // calls an operator that counts
  bool is_on_device = false;
  bool writes = false;
  double bytes = 0;
  std::vector<const void*> inputs;  // memory
};

thread_local Call* innermost = nullptr;

/// True for one float32 on the CPU that is 1.
bool is_one(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == at::kFloat && tensor.numel() == 1 &&
         *tensor.const_data_ptr<float>() == 1;
}

/// Adds what the call reads, and the arguments that it writes.
void look_at_arguments(const at::RecordFunction& function, Call& call) {
  static const Names only_write = {"aten::copy_", "aten::fill_", "aten::zero_"};
  const auto schema = function.operator_schema();
  const auto inputs = function.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto* const argument = schema && i < schema->arguments().size() ? &schema->arguments()[i] : nullptr;
    const bool is_written =
        argument != nullptr && argument->alias_info() != nullptr && argument->alias_info()->isWrite();
    const bool is_read =
        !reads_little(call.name) && (!is_written || !(argument->is_out() || only_write.contains(call.name)));
    for_each_tensor(inputs[i], [&](const at::Tensor& tensor) {
      call.is_on_device |= tensor.device().type() == counted_device;
      call.writes |= is_written && tensor.numel() > 0;
      call.bytes += bytes_of(tensor) * ((is_read ? 1 : 0) + (is_written ? 1 : 0));
      if (tensor.has_storage()) call.inputs.push_back(tensor.storage().data());
    });
  }
  if (call.name == "mn::scale_rows" && is_one(inputs[1].toTensor())) call.bytes = 0;  // the kernel returns at once
}

/// Adds the results in memory of their own. The other results are views of arguments.
void look_at_results(const at::RecordFunction& function, Call& call) {
  for (const c10::IValue& value : function.outputs()) {
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      call.is_on_device |= tensor.device().type() == counted_device;
      if (!tensor.has_storage() || std::ranges::count(call.inputs, tensor.storage().data()) > 0) return;
      call.writes |= tensor.numel() > 0;
      call.bytes += bytes_of(tensor);
    });
  }
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
  auto call = std::make_unique<Call>();
  call->name = function.name();
  call->caller = std::exchange(innermost, call.get());
  call->is_part = call->caller != nullptr && (call->caller->is_part || is_whole(call->caller->name));
  if (!call->is_part) look_at_arguments(function, *call);
  return call;
}

void end(const at::RecordFunction& function, at::ObserverContext* context) {
  Call& call = *static_cast<Call*>(context);
  innermost = call.caller;
  if (call.is_part) return;
  look_at_results(function, call);
  // mn's operators compute beside what they call.
  const bool only_calls = call.has_parts && !call.name.starts_with("mn::");
  const bool counts = call.is_on_device && call.writes && !only_calls && !only_allocates(call.name);
  if (call.caller != nullptr) call.caller->has_parts |= counts || call.has_parts;
  if (!counts) return;
  OperatorTraffic& traffic = counted[call.name];
  ++traffic.calls;
  traffic.bytes += call.bytes;
}

template <class Choice>
OperatorTraffic sum_of(const Choice& is_chosen) {
  OperatorTraffic sum;
  for (const auto& [name, traffic] : counted) {
    if (!is_chosen(name)) continue;
    sum.calls += traffic.calls;
    sum.bytes += traffic.bytes;
  }
  return sum;
}

}  // namespace

OperatorCount::OperatorCount(c10::DeviceType device) {
  counted_device = device;
  counted.clear();
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(begin, end).scopes({at::RecordScope::FUNCTION}).needsInputs(true).needsOutputs(true));
}

OperatorCount::~OperatorCount() { at::removeCallback(handle_); }

OperatorTraffic OperatorCount::all() const {
  return sum_of([](const std::string&) { return true; });
}

OperatorTraffic OperatorCount::passes() const {
  return sum_of([](const std::string& name) { return !is_arithmetic(name); });
}

std::string OperatorCount::text() const {
  std::string text;
  for (const auto& [name, traffic] : counted) {
    if (!text.empty()) text += ", ";
    text += std::to_string(traffic.calls) + " " + name + " (" + std::to_string(static_cast<long long>(traffic.bytes)) +
            " bytes)";
  }
  return text;
}

}  // namespace mn::test
