#include <mn/trainer/extensions/dump_graph.hpp>

#include <map>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <mn/core/classic_stream.hpp>
#include <mn/core/file.hpp>
#include <mn/core/text.hpp>
#include <mn/trainer/extensions/try_to_write.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {
namespace {

using torch::autograd::Node;

std::string shape_text(const at::Tensor& tensor) {
  if (tensor.dim() == 0) return "scalar";
  return join(tensor.sizes(), "×");
}

std::string operation(const std::string& node_name) {
  std::string name = node_name.substr(node_name.rfind(':') + 1);
  return name.substr(0, name.find("Backward"));
}

std::map<const Node*, std::string> labels_of(const NamedTensors& parameters) {
  std::map<const Node*, std::string> labels;
  for (const auto& [name, parameter] : parameters) {
    const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(parameter);
    if (accumulator) labels[accumulator.get()] = name + "\\n" + shape_text(parameter);
  }
  return labels;
}

}  // namespace

std::string graph_of(const at::Tensor& loss, const NamedTensors& parameters) {
  const std::map<const Node*, std::string> labels = labels_of(parameters);
  OutText dot;
  dot << "digraph loss {\n  rankdir=TB;\n  \"loss\" [shape=box, style=filled];\n";

  std::map<const Node*, std::size_t> numbers;
  std::vector<const Node*> queue;
  const auto number_of = [&](const Node* node) {
    const auto [at, is_new] = numbers.emplace(node, numbers.size());
    if (is_new) queue.push_back(node);
    return at->second;
  };
  if (loss.grad_fn()) dot << "  n" << number_of(loss.grad_fn().get()) << " -> \"loss\";\n";
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const Node* node = queue[i];
    const auto label = labels.find(node);
    const bool is_parameter = label != labels.end();
    dot << "  n" << numbers.at(node) << " [label=\"" << (is_parameter ? label->second : operation(node->name()))
        << "\", shape=" << (is_parameter ? "box" : "oval") << "];\n";
    for (const auto& edge : node->next_edges()) {
      if (edge.function) dot << "  n" << number_of(edge.function.get()) << " -> n" << numbers.at(node) << ";\n";
    }
  }
  dot << "}\n";
  return dot.str();
}

void DumpGraph::after_forward(Trainer& trainer, const at::Tensor& loss) {
  if (!graph_.empty() || !trainer.is_root()) return;
  graph_ = graph_of(loss, named_parameters(trainer.model()));
  try_to_write(has_failed_, [&] { write_file(trainer.out() / "cg.dot", graph_); });
}

void DumpGraph::finalize(Trainer& trainer) {
  complete(has_failed_, [&] { write_file(trainer.out() / "cg.dot", graph_); });
}

}  // namespace mn::extensions
