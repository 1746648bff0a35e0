/// Modules made of models that Python has exported. The modules can be trained.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <torch/nn/module.h>

#include <mn/nn/exported_file.hpp>

namespace mn {

class Communicator;

namespace exported {
class BoundGraph;
struct Program;
}  // namespace exported

/// An input of an ExportedModule's forward().
struct ExportedInput {
  std::string name;                 ///< the parameter's name in Python's forward()
  at::ScalarType dtype;             ///< at the export; any dtype of the same kind (integer, floating) is accepted
  std::vector<std::int64_t> sizes;  ///< -1: the size varies (dynamic_shapes of torch.export)
  std::vector<std::int64_t> most;   ///< the largest accepted sizes
};

/// A tensor that Python's forward() returns.
struct ExportedOutput {
  /// The keys and fields that lead to the tensor, like "logits" or "hidden.1", or else the tensor's position, like "0".
  /// A single tensor is called "output".
  std::string name;
  std::optional<std::vector<std::int64_t>> sizes;  ///< -1: the size varies; no value: the shape is not known
};

/// The model in a file that Python's torch.export.save has written (.pt2, torch 2.9 or newer), or mn-compile (.mnc,
/// docs/compiled.md; its compiled parts have first derivatives only):
///
///   batch = torch.export.Dim("batch")
///   program = torch.export.export(model.train(), (example,), dynamic_shapes=({0: batch},))
///   torch.export.save(program, "model.pt2")
///
/// The file's graph of ATen operators runs through libtorch's dispatcher; therefore gradients, autocast and devices
/// work as in Python. Parameters and buffers have torch's names; a tied weight is one tensor under several names.
/// Complex parameters and buffers are stored as real tensors, with the real and the imaginary part as last dimension
/// (torch.view_as_real), because optimizers, collective calls and checkpoints take real tensors. The graph runs on the
/// device of the parameters, not on the device of the export. Pickled parts of the file are never read.
///
/// In training mode the exported graph runs. The graph for evaluation mode is derived from it: dropout is off,
/// normalizations use their running statistics, and parameters and buffers do not change. If a model asks for its mode
/// itself, draws random numbers, or reads a buffer after changing the buffer, its evaluation graph cannot be derived:
/// export the model in evaluation mode, too, and pass the second file to set_evaluation_graph().
class ExportedModule : public torch::nn::Module {
 public:
  /// Makes the model of a file; collective if the file is (exported_file.hpp). Throws a DataError of one line that
  /// names the damaged or unknown part of the file, for example an operator.
  explicit ExportedModule(const ExportedFile& file);
  /// Makes the model of ExportedFile(path). Not collective.
  explicit ExportedModule(const std::filesystem::path& path);
  /// Makes the model of ExportedFile(bytes, source). Not collective.
  ExportedModule(std::string_view bytes, const std::string& source);
  /// Makes a model that only trains, on the parameters and buffers of `owner` with the names of the file's. Collective
  /// if the file is. Throws DataError if one is absent, or has another shape or dtype.
  ExportedModule(const ExportedFile& file, const torch::nn::Module& owner);
  ~ExportedModule() override;

  /// From now on evaluation mode runs the graph of `file`, on this module's parameters and buffers. Collective if the
  /// file is. Throws DataError as the constructor does, and also if a parameter or buffer of the file is not in this
  /// module.
  void set_evaluation_graph(const ExportedFile& file);
  /// Throws DataError with the reason if there is no graph for evaluation mode. Call it before training, if the program
  /// will evaluate.
  void require_evaluation_graph() const;
  /// True if the file was probably exported in evaluation mode: all its dropout and batch norm are off, and stay off in
  /// training. False if the only such layers are batch norms with frozen weights, which are off on purpose.
  [[nodiscard]] bool is_exported_for_evaluation() const noexcept { return is_set_to_evaluation_; }

  /// Returns the least number of samples in a minibatch on which the model can train: 2 if a batch norm in training
  /// gets one value of a channel from each sample; 1 otherwise, or if the file does not tell.
  [[nodiscard]] std::int64_t fewest_samples() const noexcept { return fewest_samples_; }

  /// The inputs of forward_all(), in order.
  [[nodiscard]] const std::vector<ExportedInput>& inputs() const noexcept { return inputs_; }
  /// The outputs of forward_all() in training mode, in order.
  [[nodiscard]] const std::vector<ExportedOutput>& outputs() const noexcept { return outputs_; }
  /// Returns the tensors that Python's forward() returns for `inputs`, in the order of torch.utils._pytree; None
  /// becomes an undefined tensor. Throws ArgumentError if inputs() does not admit the arguments, and Error that names
  /// the node whose operator fails.
  [[nodiscard]] std::vector<at::Tensor> forward_all(const std::vector<at::Tensor>& inputs);
  /// Returns the first output of a model with one input.
  [[nodiscard]] at::Tensor forward(const at::Tensor& input) { return forward_all({input}).at(0); }
  /// Returns the output called `output`. If there is none, throws an ArgumentError that lists all names. In evaluation
  /// mode a model's only output is returned whatever its name.
  [[nodiscard]] at::Tensor forward(const std::vector<at::Tensor>& inputs, const std::string& output);

  /// For create_mnbn_model(): from now on batch norm in training mode normalizes over the minibatches of all ranks of
  /// `comm`, as MultiNodeBatchNorm. Throws ArgumentError if the file holds batch norms as several simple operators
  /// (decomposed).
  void normalize_over(std::shared_ptr<Communicator> comm);

  using torch::nn::Module::to;
  /// Moves parameters, buffers and constants to `device`.
  void to(c10::Device device, at::ScalarType dtype, bool non_blocking = false) override;
  /// Moves parameters, buffers and constants to `device`.
  void to(c10::Device device, bool non_blocking = false) override;

 private:
  /// `tensors`: of the inputs of the training graph.
  void make_evaluation_graph(const ExportedFile& file, const std::vector<at::Tensor>& tensors);
  void make_training_graph(const ExportedFile& file, const std::vector<at::Tensor>& tensors);
  void bind_evaluation_graph(const ExportedFile& file, const exported::Program& program);
  void move_constants(c10::Device device);
  [[nodiscard]] const exported::BoundGraph& graph() const;

  std::unique_ptr<exported::BoundGraph> training_;
  std::unique_ptr<exported::BoundGraph> evaluation_;  // null: no graph, for the reason in evaluation_error_
  std::string evaluation_error_;
  std::vector<ExportedInput> inputs_;
  std::vector<ExportedOutput> outputs_;
  std::shared_ptr<Communicator> batch_norm_comm_;  // null: each rank normalizes by its own minibatch
  bool has_other_batch_norms_ = false;             // some batch norms can't normalize over ranks
  bool has_compiled_batch_norm_ = false;
  bool is_set_to_evaluation_ = false;
  std::int64_t fewest_samples_ = 1;
};

}  // namespace mn
