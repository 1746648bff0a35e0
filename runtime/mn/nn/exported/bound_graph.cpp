#include <mn/nn/exported/bound_graph.hpp>

#include <algorithm>

#include <ATen/ScalarOps.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/GradMode.h>

#include <mn/core/classic_stream.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>
#include <mn/nn/exported/argument.hpp>
#include <mn/nn/exported/enumerations.hpp>
#include <mn/nn/exported/evaluation_graph.hpp>

namespace mn::exported {
namespace {

/// Returns a text like "Float [any, 3, up to 64]".
std::string form_of_input(const Input& input) {
  const auto text_of = [](const Extent& extent) {
    if (extent.least == extent.most) return std::to_string(extent.most);
    return extent.most == Extent().most ? "any" : "up to " + std::to_string(extent.most);
  };
  return std::string(toString(scalar_type_of(input.dtype))) + " [" + join(input.extents, ", ", text_of) + "]";
}

std::string form_of_tensor(const at::Tensor& tensor) {
  OutText text;
  text << toString(tensor.scalar_type()) << " " << tensor.sizes();
  return text.str();
}

bool is_same_kind(at::ScalarType a, at::ScalarType b) {
  return c10::isIntegralType(a, true) == c10::isIntegralType(b, true) && c10::isComplexType(a) == c10::isComplexType(b);
}

bool admits(const Input& input, const at::Tensor& given) {
  if (!is_same_kind(given.scalar_type(), scalar_type_of(input.dtype))) return false;
  return std::ranges::equal(input.extents, given.sizes(), [](const Extent& extent, std::int64_t size) {
    return extent.least <= size && size <= extent.most;
  });
}

void check_dtype(const Input& input, const std::string& source) {
  if (input.kind != Input::Kind::kUser) return;
  try {
    (void)scalar_type_of(input.dtype);
  } catch (const UnknownForm& unknown) {
    throw DataError(source + ": input " + json_quoted(input.value) + " has " + unknown.what());
  }
}

/// The index of the input whose buffer gets a copy of the output; no value if the output is returned to the user.
std::optional<std::size_t> buffer_of(const Output& output, const std::vector<Input>& inputs,
                                     const std::string& source) {
  if (output.buffer.empty()) return std::nullopt;
  const auto found = std::ranges::find_if(
      inputs, [&](const Input& input) { return input.kind == Input::Kind::kBuffer && input.target == output.buffer; });
  if (found != inputs.end()) return static_cast<std::size_t>(found - inputs.begin());
  throw DataError(source + ": an output changes the buffer " + json_quoted(output.buffer) + ", which is not an input");
}

at::Tensor tensor_of(const c10::IValue& value, const std::string& source) {
  if (value.isNone()) return {};
  if (value.isScalar()) return at::native::wrapped_scalar_tensor(value.toScalar());
  if (value.isTensor()) return value.toTensor();
  throw Error(source + ": an output is a " + value.tagKind() + ", not a tensor");
}

}  // namespace

BoundGraph::BoundGraph(const Program& program, Mode mode, std::vector<at::Tensor> tensors, const std::string& source)
    : source_(source),
      mode_(mode),
      inputs_(program.inputs),
      tensors_(std::move(tensors)),
      runner_(program.graph, source) {
  for (const Input& input : inputs_) {
    check_dtype(input, source);
    const auto stored = program.weights.find(input.target);
    is_complex_.push_back(is_state(input) && stored != program.weights.end() &&
                          c10::isComplexType(scalar_type_of(stored->second.dtype)));
  }
  is_copied_ = mode == Mode::kEvaluation ? written_inputs(program) : std::vector<bool>(inputs_.size());
  for (const Output& output : program.outputs) {
    if (output.buffer.empty()) outputs_.push_back(output);
    buffers_.push_back(buffer_of(output, inputs_, source));
    if (buffers_.back() && mode == Mode::kTraining) is_copied_[*buffers_.back()] = true;
  }
}

c10::Device BoundGraph::device_of(const std::vector<at::Tensor>& inputs) const {
  for (const at::Tensor& tensor : tensors_) {
    if (tensor.defined()) return tensor.device();
  }
  return inputs.empty() ? c10::Device(c10::kCPU) : inputs.front().device();
}

/// Returns the value that the graph gets for an input that the user does not give. Tied tensors share one copy.
at::Tensor BoundGraph::value_of_input(std::size_t input, Copies& copies) const {
  const at::Tensor& own = tensors_[input];
  if (!own.defined()) return own;
  if (!is_copied_[input]) return own;
  at::Tensor& copy = copies[own.unsafeGetTensorImpl()];
  if (!copy.defined()) copy = own.clone();
  return copy;
}

std::vector<c10::IValue> BoundGraph::values_for(const std::vector<at::Tensor>& inputs) const {
  std::vector<c10::IValue> values;
  Copies copies;
  std::size_t next = 0;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].kind != Input::Kind::kUser) {
      const at::Tensor tensor = value_of_input(i, copies);
      values.emplace_back(!tensor.defined() ? c10::IValue() : is_complex_[i] ? at::view_as_complex(tensor) : tensor);
      continue;
    }
    const std::string what = source_ + ": input " + json_quoted(inputs_[i].value);
    if (next == inputs.size()) throw ArgumentError(what + " was not given");
    if (!inputs[next].defined()) throw ArgumentError(what + " is undefined");
    if (!admits(inputs_[i], inputs[next])) {
      throw ArgumentError(what + " is " + form_of_tensor(inputs[next]) + ", but the model was exported for " +
                          form_of_input(inputs_[i]) + ": torch.export's dynamic_shapes says which sizes vary");
    }
    values.emplace_back(inputs[next++]);
  }
  if (next == inputs.size()) return values;
  throw ArgumentError(source_ + " takes " + std::to_string(next) + " inputs, but was given " +
                      std::to_string(inputs.size()));
}

std::vector<std::int64_t> BoundGraph::versions() const {
  std::vector<std::int64_t> versions;
  for (const at::Tensor& tensor : tensors_) versions.push_back(tensor.defined() ? tensor._version() : 0);
  return versions;
}

std::vector<at::Tensor> BoundGraph::run(const std::vector<at::Tensor>& inputs) const {
  const std::vector<std::int64_t> before = versions();
  const std::vector<c10::IValue> results = runner_.run(values_for(inputs), device_of(inputs));
  // The check follows the run: an operator's schema does not always tell that the operator writes to an argument, or
  // that its result shares memory with an argument.
  if (mode_ == Mode::kEvaluation && versions() != before) {
    throw Error(source_ + ": an operator changes the model in evaluation mode: export the model without that operator");
  }
  std::vector<at::Tensor> outputs;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (buffers_[i] && mode_ == Mode::kEvaluation) continue;
    const at::Tensor result = tensor_of(results[i], source_);
    if (!buffers_[i]) {
      outputs.push_back(result);
    } else if (result.defined()) {
      // The value is copied into the buffer's own memory, because checkpoints and broadcasts refer to this memory. The
      // graph has worked on a copy of the old value, which autograd may still hold.
      const c10::AutoGradMode no_grad(false);
      at::Tensor(tensors_[*buffers_[i]]).copy_(is_complex_[*buffers_[i]] ? at::view_as_real(result) : result);
    }
  }
  return outputs;
}

void BoundGraph::move_constants(c10::Device device) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (!is_state(inputs_[i]) && tensors_[i].defined()) tensors_[i].set_data(tensors_[i].to(device));
  }
}

}  // namespace mn::exported
