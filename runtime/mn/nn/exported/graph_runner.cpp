// Turns each node of an exported program into a step: the operator, a source for each argument of its schema (the
// node's argument or the schema's default), and the slots of the results. For each step run() then only fills a stack
// with the arguments, calls the operator through libtorch's dispatcher, and stores the results.
//
// (1) Values lie in slots, numbered in the order of computation; the inputs come first.
// (2) A value is released after the last step that reads it; therefore memory holds only values for later steps and for
//     autograd.

#include <mn/nn/exported/graph_runner.hpp>

#include <exception>
#include <optional>
#include <unordered_set>

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>
#include <mn/nn/exported/operators.hpp>
#include <mn/nn/exported/python_operators.hpp>

namespace mn::exported {
namespace {

using c10::IValue;

/// True if the parameter switches cuDNN. The file's value is ignored: it is off if the exporting machine had no GPU.
bool is_cudnn_switch(const c10::Argument& parameter) { return parameter.name().starts_with("cudnn_enable"); }

}  // namespace

GraphRunner::GraphRunner(const Graph& graph, const std::string& source) : source_(source) {
  for (const std::string& input : graph.inputs) slots_.define(input);
  const Node* current = nullptr;
  try {
    for (const Node& node : graph.nodes) {
      current = &node;
      add(node);
    }
    current = nullptr;
    for (const Argument& output : graph.outputs) {
      if (const auto* name = std::get_if<ValueName>(&output.value)) output_slots_.push_back(slots_.of(name->name));
      outputs_.push_back(make_value_source(output, slots_));
    }
  } catch (const UnknownForm& unknown) {
    throw DataError(source_ + ": " + (current != nullptr ? current->what : "an output") + " has " + unknown.what());
  }
  find_finished();
}

void GraphRunner::add(const Node& node) {
  Step step{.what = node.what, .call = {}, .grad = node.grad, .autocast = node.autocast};
  for (const std::string& value : values_read(node)) step.reads.push_back(slots_.of(value));
  if (node.call) return add_call(node, std::move(step));
  if (find_number_operator(node.target) != nullptr) return add_number_operator(node, std::move(step));
  if (find_control_flow(node.target) != nullptr) return add_control_flow(node, std::move(step));
  add_operator(node, std::move(step));
}

void GraphRunner::add_number_operator(const Node& node, Step step) {
  const NumberOperator& known = *find_number_operator(node.target);
  if (node.inputs.size() != known.operands) throw UnknownForm("a wrong number of operands");
  for (const NamedArgument& input : node.inputs) step.arguments.push_back(make_number_source(input.value, slots_));
  for (const Argument& output : node.outputs) step.results.push_back(define(output));
  step.call = [call = known.call](torch::jit::Stack& stack, c10::Device) { call(stack); };
  steps_.push_back(std::move(step));
}

void GraphRunner::add_call(const Node& node, Step step) {
  const auto* list = node.inputs.empty() ? nullptr : std::get_if<std::vector<Argument>>(&node.inputs[0].value.value);
  if (list == nullptr || node.outputs.size() != 1) throw UnknownForm("no list of tensors");
  for (const Argument& value : *list) step.arguments.push_back(make_value_source(value, slots_));
  step.results.push_back(define(node.outputs[0]));
  step.call = [call = node.call](torch::jit::Stack& stack, c10::Device) {
    std::vector<at::Tensor> inputs;
    for (IValue& value : stack) inputs.push_back(value.isTensor() ? std::move(value).toTensor() : at::Tensor());
    stack.assign({IValue(call(std::move(inputs)))});
  };
  steps_.push_back(std::move(step));
}

void GraphRunner::add_control_flow(const Node& node, Step step) {
  const ControlFlow& known = *find_control_flow(node.target);
  if (node.graphs.size() != known.graphs || node.inputs.size() != known.operands) {
    throw UnknownForm("another number of graphs or operands than torch's operator");
  }
  std::vector<std::size_t> counts;  // [operands] number of values of the operand
  std::size_t given = 0;            // number of values that the inner graphs get
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const Argument& operand = node.inputs[i].value;
    const auto* list = std::get_if<std::vector<Argument>>(&operand.value);
    const std::vector<Argument> values = list != nullptr ? *list : std::vector<Argument>{operand};
    for (const Argument& value : values) step.arguments.push_back(make_value_source(value, slots_));
    counts.push_back(values.size());
    if (i >= known.own_operands) given += values.size();
  }
  std::vector<RunGraph> graphs;
  for (const Graph& graph : node.graphs) {
    if (graph.inputs.size() != given) throw UnknownForm("a graph within it that takes other values");
    const auto runner = std::make_shared<const GraphRunner>(graph, source_);
    graphs.emplace_back([runner](Values values, c10::Device device) { return runner->run(std::move(values), device); });
  }
  for (const Argument& output : node.outputs) step.results.push_back(define(output));
  step.call = [call = known.call, graphs, counts](torch::jit::Stack& stack, c10::Device device) {
    stack = call({graphs, device}, split(std::move(stack), counts));
  };
  steps_.push_back(std::move(step));
}

void GraphRunner::add_operator(const Node& node, Step step) {
  const auto found = find_operator(node.target);
  if (!found) throw UnknownForm(unknown_operator(node.target));
  const c10::FunctionSchema& schema = found->schema();
  // This assertion is left out: it may fail on a device other than the device of the export, or with autocast.
  if (schema.name() == "aten::_assert_tensor_metadata") return;
  for (const c10::Argument& parameter : schema.arguments()) step.arguments.push_back(source_of(node, parameter));
  for (const NamedArgument& input : node.inputs) {
    if (schema.argumentIndexWithName(input.name)) continue;
    throw UnknownForm("the argument " + json_quoted(input.name) + ", which the operator does not have");
  }
  for (const Argument& output : node.outputs) step.results.push_back(define(output));
  step.call = [handle = *found](torch::jit::Stack& stack, c10::Device) { handle.callBoxed(stack); };
  steps_.push_back(std::move(step));
}

Source GraphRunner::source_of(const Node& node, const c10::Argument& parameter) {
  const Argument* given = find_input(node, parameter.name());
  if (is_cudnn_switch(parameter)) {
    return [](const Frame&) { return IValue(at::globalContext().userEnabledCuDNN()); };
  }
  try {
    if (given != nullptr) return make_source(*given, parameter, slots_);
  } catch (const UnknownForm& unknown) {
    throw UnknownForm("the argument " + json_quoted(parameter.name()) + ": " + unknown.what());
  }
  if (!parameter.default_value()) throw UnknownForm("no argument " + json_quoted(parameter.name()));
  return [value = *parameter.default_value()](const Frame&) { return value; };
}

GraphRunner::Result GraphRunner::define(const Argument& output) {
  Result result{.is_list = std::holds_alternative<std::vector<Argument>>(output.value)};
  std::vector<std::string> names;
  append_values(names, output);
  for (const std::string& name : names) result.slots.push_back(slots_.define(name));
  if (result.is_list && names.size() != std::get<std::vector<Argument>>(output.value).size()) {
    throw UnknownForm("a list of results, some of them None");
  }
  return result;
}

void GraphRunner::find_finished() {
  std::unordered_set<std::size_t> needed(output_slots_.begin(), output_slots_.end());
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    for (const Result& result : step->results) {
      for (const std::size_t slot : result.slots) {
        if (needed.insert(slot).second) step->finished.push_back(slot);
      }
    }
    for (const std::size_t slot : step->reads) {
      if (needed.insert(slot).second) step->finished.push_back(slot);
    }
  }
}

std::vector<IValue> GraphRunner::run(std::vector<IValue> inputs, c10::Device device) const {
  Frame frame{std::move(inputs), device};
  frame.values.resize(slots_.count());
  torch::jit::Stack stack;
  for (const Step& step : steps_) {
    try {
      execute(step, frame, stack);
    } catch (const c10::Error& error) {
      std::throw_with_nested(
          Error(source_ + ": " + step.what + " failed: " + first_line_of(error.what_without_backtrace())));
    } catch (const UnknownForm& unknown) {
      throw Error(source_ + ": " + step.what + " failed: it has " + unknown.what());
    }
  }
  std::vector<IValue> outputs;
  for (const Source& output : outputs_) outputs.push_back(output(frame));
  return outputs;
}

void GraphRunner::execute(const Step& step, Frame& frame, torch::jit::Stack& stack) const {
  stack.clear();
  for (const Source& argument : step.arguments) stack.push_back(argument(frame));
  {
    const c10::AutoGradMode grad(step.grad && c10::GradMode::is_enabled());
    const c10::impl::ExcludeDispatchKeyGuard autocast(step.autocast ? c10::DispatchKeySet()
                                                                    : c10::autocast_dispatch_keyset);
    step.call(stack, frame.device);
  }
  if (stack.size() != step.results.size()) throw UnknownForm("another number of results than libtorch's operator");
  for (std::size_t i = 0; i < stack.size(); ++i) {
    const Result& result = step.results[i];
    if (!result.is_list) {
      if (!result.slots.empty()) frame.values[result.slots.front()] = std::move(stack[i]);
      continue;
    }
    const bool matches = stack[i].isList() && stack[i].toListRef().size() == result.slots.size();
    if (!matches) throw UnknownForm("another number of results than libtorch's operator");
    for (std::size_t k = 0; k < result.slots.size(); ++k) frame.values[result.slots[k]] = stack[i].toListRef()[k];
  }
  for (const std::size_t slot : step.finished) frame.values[slot] = IValue();
}

}  // namespace mn::exported
