#include <mn/nn/exported_module.hpp>

#include <map>

#include <torch/nn/module.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>
#include <mn/nn/compiled/package.hpp>
#include <mn/nn/exported/argument.hpp>
#include <mn/nn/exported/bound_graph.hpp>
#include <mn/nn/exported/enumerations.hpp>
#include <mn/nn/exported/evaluation_graph.hpp>
#include <mn/nn/exported/operators.hpp>
#include <mn/nn/exported/program.hpp>
#include <mn/nn/graph_batch_norm.hpp>

namespace mn {
namespace {

using exported::Input;
using exported::Program;
using exported::StoredTensor;

/// Returns the module of the parameter or buffer `name`, and the name within this module. Makes a missing module.
std::pair<torch::nn::Module*, std::string> module_of(torch::nn::Module& root, const std::string& name) {
  torch::nn::Module* module = &root;
  std::size_t begin = 0;
  for (std::size_t dot; (dot = name.find('.', begin)) != std::string::npos; begin = dot + 1) {
    const std::string child = name.substr(begin, dot - begin);
    const auto children = module->named_children();
    const auto* known = children.find(child);
    module =
        known != nullptr ? known->get() : module->register_module(child, std::make_shared<torch::nn::Module>()).get();
  }
  return {module, name.substr(begin)};
}

void register_tensor(torch::nn::Module& root, const Input& input, const at::Tensor& tensor, bool requires_grad,
                     const std::string& source) {
  try {
    const auto [module, name] = module_of(root, input.target);
    if (input.kind == Input::Kind::kParameter) {
      module->register_parameter(name, tensor, requires_grad);
    } else {
      module->register_buffer(name, tensor);
    }
  } catch (const c10::Error& error) {
    throw DataError(source + ": the name " + json_quoted(input.target) +
                    " can't be a parameter's or a buffer's: " + first_line_of(error.what_without_backtrace()));
  }
}

std::map<std::string, at::Tensor> state_of(const torch::nn::Module& module) {
  std::map<std::string, at::Tensor> state;
  for (const auto& item : module.named_parameters()) state.emplace(item.key(), item.value());
  for (const auto& item : module.named_buffers()) state.emplace(item.key(), item.value());
  return state;
}

ExportedInput describe(const Input& input) {
  ExportedInput result{input.value, exported::scalar_type_of(input.dtype), {}, {}};
  for (const auto& [least, most] : input.extents) {
    result.sizes.push_back(least == most ? most : -1);
    result.most.push_back(most);
  }
  return result;
}

}  // namespace

/// Reads the tensors of a file's inputs. Inputs with equal views of one record (tied weights) get one tensor.
class ExportedTensors {
 public:
  ExportedTensors(const ExportedFile& file, const Program& program) : file_(file), program_(program) {}

  /// Returns an undefined tensor for an argument of forward().
  at::Tensor read(const Input& input) {
    if (input.kind == Input::Kind::kUser || input.kind == Input::Kind::kLiteral) return {};
    const StoredTensor& stored = find(input);
    at::Tensor& tensor = read_[stored];
    if (tensor.defined()) return tensor;  // tied weights
    const bool is_state = exported::is_state(input);
    tensor = file_.read(input.target, stored, is_state);
    // A complex tensor becomes a real tensor of pairs, because optimizers and communicators have no complex numbers.
    if (is_state && tensor.is_complex()) tensor = at::view_as_real(tensor).clone();
    return tensor;
  }
  void agree() const { file_.agree(); }
  [[nodiscard]] bool requires_grad(const Input& input) const { return file_.has_values_ && find(input).requires_grad; }

 private:
  [[nodiscard]] const StoredTensor& find(const Input& input) const {
    const auto& tensors = exported::is_state(input) ? program_.weights : program_.constants;
    const auto found = tensors.find(input.target);
    if (found != tensors.end()) return found->second;
    throw DataError(file_.source() + " lacks the tensor " + json_quoted(input.target) + " of its graph");
  }

  const ExportedFile& file_;
  const Program& program_;
  std::map<StoredTensor, at::Tensor> read_;
};

/// The values of a program's inputs, with `state` in place of the file's parameters and buffers.
std::vector<at::Tensor> bound_tensors(const ExportedFile& file, const Program& program,
                                      const std::map<std::string, at::Tensor>& state) {
  const ExportedFile without_values = file.without_values();
  ExportedTensors constants(file, program), forms(without_values, program);
  std::vector<at::Tensor> tensors;
  for (const Input& input : program.inputs) {
    if (!exported::is_state(input)) {
      tensors.push_back(constants.read(input));
      continue;
    }
    const at::Tensor form = forms.read(input);
    const auto own = state.find(input.target);
    const bool matches =
        own != state.end() && own->second.sizes() == form.sizes() && own->second.scalar_type() == form.scalar_type();
    if (!matches) {
      throw DataError(file.source() + " is of another model: " + json_quoted(input.target) +
                      " has another shape or dtype than in the model that trains, or is absent there");
    }
    tensors.push_back(own->second);
  }
  constants.agree();
  return tensors;
}

ExportedModule::ExportedModule(const std::filesystem::path& path) : ExportedModule(ExportedFile(path)) {}

ExportedModule::ExportedModule(std::string_view bytes, const std::string& source)
    : ExportedModule(ExportedFile(bytes, source)) {}

ExportedModule::ExportedModule(const ExportedFile& file) {
  const Program& program = *file.program_;
  const std::string& source = file.source();
  ExportedTensors reader(file, program);
  std::vector<at::Tensor> tensors;
  for (const Input& input : program.inputs) {
    tensors.push_back(reader.read(input));
    if (exported::is_state(input)) {
      register_tensor(*this, input, tensors.back(), reader.requires_grad(input), source);
    }
  }
  file.agree();
  make_training_graph(file, tensors);
  make_evaluation_graph(file, tensors);
}

ExportedModule::ExportedModule(const ExportedFile& file, const torch::nn::Module& owner)
    : evaluation_error_(file.source() + " has no graph for evaluation mode") {
  make_training_graph(file, bound_tensors(file, *file.program_, state_of(owner)));
}

ExportedModule::~ExportedModule() = default;

void ExportedModule::make_training_graph(const ExportedFile& file, const std::vector<at::Tensor>& tensors) {
  Program training = *file.program_;
  const GraphBatchNorms norms = replace_batch_norms(training);
  has_compiled_batch_norm_ = file.package_ && file.package_->needs().has_batch_norm;
  has_other_batch_norms_ = norms.others > 0;
  fewest_samples_ = norms.need_two ? 2 : 1;
  training_ = std::make_unique<exported::BoundGraph>(training, exported::Mode::kTraining, tensors, file.source());
  is_set_to_evaluation_ = exported::is_set_to_evaluation(*file.program_);
  for (const Input& input : file.program_->inputs) {
    if (input.kind == Input::Kind::kUser) inputs_.push_back(describe(input));
  }
  for (const exported::Output& output : training_->outputs()) outputs_.push_back({output.name, output.sizes});
}

void ExportedModule::make_evaluation_graph(const ExportedFile& file, const std::vector<at::Tensor>& tensors) {
  if (file.package_ && !file.package_->needs().derives_evaluation) {
    bind_evaluation_graph(file, *file.evaluation_);
    return;
  }
  const Program& program = file.evaluation_ ? *file.evaluation_ : *file.program_;
  try {
    const Program evaluation = exported::derive_evaluation(program, file.source());
    evaluation_ =
        std::make_unique<exported::BoundGraph>(evaluation, exported::Mode::kEvaluation, tensors, file.source());
  } catch (const DataError& error) {
    // A model that only trains needs no evaluation graph. The first call that needs the graph throws the error.
    evaluation_error_ = error.what();
  }
}

void ExportedModule::set_evaluation_graph(const ExportedFile& file) { bind_evaluation_graph(file, *file.program_); }

void ExportedModule::bind_evaluation_graph(const ExportedFile& file, const Program& program) {
  const std::vector<at::Tensor> tensors = bound_tensors(file, program, state_of(*this));
  evaluation_ = std::make_unique<exported::BoundGraph>(program, exported::Mode::kEvaluation, tensors, file.source());
}

void ExportedModule::require_evaluation_graph() const {
  if (!evaluation_) throw DataError(evaluation_error_);
}

const exported::BoundGraph& ExportedModule::graph() const {
  if (is_training()) return *training_;
  require_evaluation_graph();
  return *evaluation_;
}

std::vector<at::Tensor> ExportedModule::forward_all(const std::vector<at::Tensor>& inputs) {
  const BatchNormScope scope(batch_norm_comm_);
  return graph().run(inputs);
}

at::Tensor ExportedModule::forward(const std::vector<at::Tensor>& inputs, const std::string& output) {
  const auto& outputs = graph().outputs();
  const bool is_only = !is_training() && outputs.size() == 1;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (is_only || outputs[i].name == output) return forward_all(inputs)[i];
  }
  throw ArgumentError("the model has no output " + json_quoted(output) + ", but " +
                      join(outputs, ", ", &exported::Output::name));
}

void ExportedModule::normalize_over(std::shared_ptr<Communicator> comm) {
  if (has_compiled_batch_norm_) {
    throw ArgumentError(
        "the compiled model's batch norm can't be over all ranks, because its library computes with the ranks' own "
        "statistics: train the .pt2 file");
  }
  if (has_other_batch_norms_) {
    throw ArgumentError(
        "the exported model's batch norm can't be over all ranks, because its file holds it in a decomposed form: save "
        "what torch.export.export returns, without run_decompositions()");
  }
  batch_norm_comm_ = std::move(comm);
}

void ExportedModule::to(c10::Device device, at::ScalarType dtype, bool non_blocking) {
  Module::to(device, dtype, non_blocking);
  move_constants(device);
}

void ExportedModule::to(c10::Device device, bool non_blocking) {
  Module::to(device, non_blocking);
  move_constants(device);
}

void ExportedModule::move_constants(c10::Device device) {
  training_->move_constants(device);
  if (evaluation_) evaluation_->move_constants(device);
}

}  // namespace mn
