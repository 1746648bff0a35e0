/// Models that Python has exported, as modules that train.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <torch/nn/module.h>

namespace mn {

class Communicator;

namespace exported {
class BoundGraph;
}

/// What forward() of an ExportedModule takes.
struct ExportedInput {
  std::string name;                 ///< the parameter's name in Python's forward()
  at::ScalarType dtype;             ///< at the export; other dtypes of the same kind (integer, floating) are taken, too
  std::vector<std::int64_t> sizes;  ///< -1 where torch.export was told that the size varies (dynamic_shapes)
  std::vector<std::int64_t> most;   ///< the largest sizes that it takes
};

/// One of the tensors that Python's forward() returns.
struct ExportedOutput {
  /// Keys and fields that lead to it, "logits" or "hidden.1", or its position, "0"; a tensor alone is "output".
  std::string name;
  std::optional<std::vector<std::int64_t>> sizes;  ///< -1 where the size varies; no value where it is not known
};

/// The model in a file that Python's torch.export.save has written (.pt2, torch 2.9 or newer):
///
///   batch = torch.export.Dim("batch")
///   program = torch.export.export(model.train(), (example,), dynamic_shapes=({0: batch},))
///   torch.export.save(program, "model.pt2")
///
/// Its graph of ATen operators runs through libtorch's dispatcher, so gradients, autocast and devices are as in Python.
/// Parameters and buffers have torch's names; tied weights are one tensor under each of their names. Complex ones are
/// real here, with the real and the imaginary part as last dimension (torch.view_as_real), which optimizers, collective
/// calls and checkpoints take as they are. The graph runs on the device of the parameters, whatever device it was
/// exported on. Pickled parts of the file are never read.
///
/// In training mode the graph runs as it was exported. The graph for evaluation mode is derived from it: dropout is
/// off, normalizations use their running statistics, and neither parameters nor buffers change. Where that is not
/// enough, because the model asks for its mode by itself, draws random numbers, or reads a buffer after it has changed
/// it, export it in evaluation mode, too, and give that file to set_evaluation_graph().
class ExportedModule : public torch::nn::Module {
 public:
  /// Reads a file, on this rank alone. Throws DataError of one line that names what is absent, damaged or unknown, such
  /// as an operator.
  explicit ExportedModule(const std::filesystem::path& path);
  /// The same from the bytes of such a file; `source` is what messages call it.
  ExportedModule(std::string_view bytes, const std::string& source);
  ~ExportedModule() override;

  /// Runs this file's graph in evaluation mode, on the parameters and buffers of this module. Throws DataError as the
  /// constructor does, and if the file's parameters or buffers are not among them.
  void set_evaluation_graph(std::string_view bytes, const std::string& source);
  /// Throws DataError if there is no graph for evaluation mode, and says why: for programs that want to know that
  /// before they train.
  void require_evaluation_graph() const;
  /// Whether the file looks as if it had been exported in evaluation mode: it has dropout or batch norm, all of it off.
  /// Training then goes on without them. Batch norms alone whose weights require no gradient are meant so.
  [[nodiscard]] bool is_exported_for_evaluation() const noexcept { return is_set_to_evaluation_; }

  /// The fewest samples of a minibatch that it can train on: 2 where a batch norm that trains gets one value of a
  /// channel from each sample, else 1, also where the file does not tell.
  [[nodiscard]] std::int64_t fewest_samples() const noexcept { return fewest_samples_; }

  /// What forward_all() takes, in its order.
  [[nodiscard]] const std::vector<ExportedInput>& inputs() const noexcept { return inputs_; }
  /// What forward_all() returns in training mode, in its order.
  [[nodiscard]] const std::vector<ExportedOutput>& outputs() const noexcept { return outputs_; }
  /// The tensors that Python's forward() returns for these arguments, in the order of torch.utils._pytree. A None among
  /// them is undefined. Throws ArgumentError if inputs() does not admit them, and Error that names the node of the
  /// graph whose operator fails.
  [[nodiscard]] std::vector<at::Tensor> forward_all(const std::vector<at::Tensor>& inputs);
  /// The first of them, of a model with one input.
  [[nodiscard]] at::Tensor forward(const at::Tensor& input) { return forward_all({input}).at(0); }
  /// The one of that name; in evaluation mode the only one, whatever its name. Throws ArgumentError that lists the
  /// names if there is none.
  [[nodiscard]] at::Tensor forward(const std::vector<at::Tensor>& inputs, const std::string& output);

  /// From now on batch norm in training mode is over the minibatches of all ranks of `comm`, as MultiNodeBatchNorm's:
  /// create_mnbn_model(). Throws ArgumentError if the file holds it in a decomposed form.
  void normalize_over(std::shared_ptr<Communicator> comm);

  using torch::nn::Module::to;
  /// Moves parameters, buffers and constants.
  void to(c10::Device device, at::ScalarType dtype, bool non_blocking = false) override;
  /// Moves parameters, buffers and constants.
  void to(c10::Device device, bool non_blocking = false) override;

 private:
  void move_constants(c10::Device device);
  [[nodiscard]] const exported::BoundGraph& graph() const;

  std::unique_ptr<exported::BoundGraph> training_;
  std::unique_ptr<exported::BoundGraph> evaluation_;  // null: evaluation_error_ says why
  std::string evaluation_error_;
  std::vector<ExportedInput> inputs_;
  std::vector<ExportedOutput> outputs_;
  std::shared_ptr<Communicator> batch_norm_comm_;  // null: each rank normalizes by its own minibatch
  bool has_other_batch_norms_ = false;             // that can't be over ranks
  bool is_set_to_evaluation_ = false;
  std::int64_t fewest_samples_ = 1;
};

}  // namespace mn
