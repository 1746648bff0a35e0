#include <mn/nn/compiled_model.hpp>

#include <vector>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>

namespace mn {
namespace {

const ExportedFile& require_package(const ExportedFile& file) {
  if (!file.precision().empty()) return file;
  throw DataError(file.source() + " has no compiled code: make a package with mn-compile --model " + file.source() +
                  " --out FILE.mnc");
}

}  // namespace

CompiledModel::CompiledModel(const ExportedFile& file) : ExportedModule(require_package(file)) {}

at::Tensor CompiledModel::forward(const std::map<std::string, at::Tensor>& inputs) {
  std::vector<at::Tensor> ordered;
  for (const ExportedInput& input : this->inputs()) {
    const auto given = inputs.find(input.name);
    if (given != inputs.end()) ordered.push_back(given->second);
  }
  if (ordered.size() == inputs.size() && ordered.size() == this->inputs().size()) return forward_all(ordered).at(0);
  throw ArgumentError("the model takes the inputs " + join(this->inputs(), ", ", &ExportedInput::name));
}

}  // namespace mn
