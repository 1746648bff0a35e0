/// Writes OUT/cg.dot: the computational graph of the loss, as Chainer's dump_graph does.
#pragma once

#include <string>

#include <mn/tensor/modules.hpp>
#include <mn/trainer/extension.hpp>

namespace mn::extensions {

/// Returns the autograd graph of `loss` in the language of Graphviz. Boxes are parameters with their shapes, ovals are
/// operations, and arrows lead from inputs to results.
[[nodiscard]] std::string graph_of(const at::Tensor& loss, const NamedTensors& parameters);

/// Rank 0 writes the graph of the first loss that rank 0 computes. If the write fails, rank 0 logs a warning, and tries
/// again at the end of training.
class DumpGraph final : public Extension {
 public:
  [[nodiscard]] std::string name() const override { return "dump_graph"; }
  void after_forward(Trainer& trainer, const at::Tensor& loss) override;
  void finalize(Trainer& trainer) override;

 private:
  std::string graph_;
  bool has_failed_ = false;
};

}  // namespace mn::extensions
