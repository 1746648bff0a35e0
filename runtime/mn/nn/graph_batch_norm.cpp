#include <mn/nn/graph_batch_norm.hpp>

#include <algorithm>
#include <optional>
#include <utility>

#include <ATen/ops/batch_norm.h>
#include <torch/library.h>

#include <mn/nn/exported/operators.hpp>
#include <mn/nn/normalize_minibatch.hpp>

namespace mn {
namespace {

thread_local std::shared_ptr<Communicator> current;

/// The operator that replaces aten::batch_norm in a graph.
at::Tensor batch_norm(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                      const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& running_mean,
                      const std::optional<at::Tensor>& running_var, bool training, double momentum, double eps,
                      bool cudnn_enabled) {
  if (training && !current && input.numel() == input.size(1)) {
    throw exported::UnknownForm("one value of each channel, on which a batch norm can't train");
  }
  if (!training || !current) {
    return at::batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled);
  }
  const RunningMoments running{running_mean.value_or(at::Tensor()), running_var.value_or(at::Tensor()), momentum};
  return normalize_minibatch(input, /*added=*/std::nullopt, weight, bias, running,
                             {MomentsOf::kRanks, current, eps, /*relu=*/false});
}

/// Makes batch_norm() known to libtorch's dispatcher, where graphs find it by name. FRAGMENT, because mn::kernels
/// registers further operators of the namespace.
void define_operator() {
  static const torch::Library kLibrary = [] {
    torch::Library library(torch::Library::FRAGMENT, "mn", std::nullopt, __FILE__, __LINE__);
    library.def(
        "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
        "bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor",
        batch_norm);
    return library;
  }();
}

bool needs_two(const exported::Node& node) {
  return node.has_one_value_a_sample && std::ranges::any_of(node.inputs, [](const exported::NamedArgument& input) {
           return input.name == "training" && exported::setting_of(input.value).value_or(false);
         });
}

bool is_batch_norm(const exported::Node& node) { return node.target.find("batch_norm") != std::string::npos; }

/// Counts the batch norms in the branches of torch.cond and in loops, which some ranks may not run.
int count_within(const std::vector<exported::Graph>& graphs) {
  int count = 0;
  for (const exported::Graph& graph : graphs) {
    for (const exported::Node& node : graph.nodes) count += is_batch_norm(node) + count_within(node.graphs);
  }
  return count;
}

}  // namespace

GraphBatchNorms replace_batch_norms(exported::Program& program) {
  define_operator();
  GraphBatchNorms norms;
  for (exported::Node& node : program.graph.nodes) {
    if (node.target == "torch.ops.aten.batch_norm.default") {
      node.target = "torch.ops.mn.batch_norm.default";
    } else if (is_batch_norm(node)) {
      ++norms.others;
    }
    norms.others += count_within(node.graphs);
    norms.need_two = norms.need_two || needs_two(node);
  }
  return norms;
}

BatchNormScope::BatchNormScope(std::shared_ptr<Communicator> comm) : before_(std::exchange(current, std::move(comm))) {}
BatchNormScope::~BatchNormScope() { current = std::move(before_); }

}  // namespace mn
