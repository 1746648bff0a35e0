/// An exported program together with the tensors that it computes with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/nn/exported/graph_runner.hpp>
#include <mn/nn/exported/program.hpp>

namespace mn::exported {

enum class Mode {
  kTraining,
  kEvaluation,  ///< the graph gets copies of the tensors that it writes to, so no parameter, buffer or constant changes
};

class BoundGraph {
 public:
  /// `tensors` has one tensor for each input of the program: undefined for arguments of run() and for literals. A
  /// complex tensor of the module's state is a real tensor whose last dimension holds the real and the imaginary part.
  /// Throws DataError as the constructor of GraphRunner does.
  BoundGraph(const Program& program, Mode mode, std::vector<at::Tensor> tensors, const std::string& source);

  /// Runs the graph on the user's inputs, in order, and returns the values of outputs(). Throws ArgumentError if the
  /// inputs do not match the graph, and Error as GraphRunner::run() does.
  [[nodiscard]] std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs) const;

  [[nodiscard]] const std::vector<Output>& outputs() const noexcept { return outputs_; }

  /// Moves to `device` the tensors that are neither parameters nor persistent buffers.
  void move_constants(c10::Device device);

 private:
  [[nodiscard]] std::vector<c10::IValue> values_for(const std::vector<at::Tensor>& inputs) const;
  using Copies = std::map<const at::TensorImpl*, at::Tensor>;
  [[nodiscard]] at::Tensor value_of_input(std::size_t input, Copies& copies) const;
  [[nodiscard]] std::vector<std::int64_t> versions() const;
  [[nodiscard]] c10::Device device_of(const std::vector<at::Tensor>& inputs) const;

  std::string source_;
  Mode mode_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<at::Tensor> tensors_;                  // [inputs]
  std::vector<bool> is_complex_;                     // [inputs] the graph takes a complex view of a real tensor
  std::vector<bool> is_copied_;                      // [inputs] the graph gets a copy of the tensor
  std::vector<std::optional<std::size_t>> buffers_;  // [outputs] the input to which the output is copied
  GraphRunner runner_;
};

}  // namespace mn::exported
