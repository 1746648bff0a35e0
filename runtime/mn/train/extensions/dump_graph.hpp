/// OUT/cg.dot: the computational graph of the loss.
#pragma once

#include <mn/train/extension.hpp>
#include <mn/train/safetensors.hpp>

namespace mn::extensions {

/// The autograd graph behind `loss` in Graphviz's language: boxes are parameters with their shapes, ovals operations;
/// arrows run from inputs to results.
[[nodiscard]] std::string graph_of(const at::Tensor& loss, const NamedTensors& parameters);

/// Writes the graph of rank 0's first loss.
class DumpGraph final : public Extension {
 public:
  [[nodiscard]] std::string name() const override { return "dump_graph"; }
  void after_forward(Trainer& trainer, const at::Tensor& loss) override;

 private:
  bool done_ = false;
};

}  // namespace mn::extensions
