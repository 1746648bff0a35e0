/// Models that mn-compile has compiled. They train at torch.compile's speed.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include <mn/nn/exported_module.hpp>

namespace mn {

/// The model in a package of mn-compile (.mnc, docs/compiled.md):
///
///   mn-compile --model net.py:make --out net.mnc
///
/// Each compiled segment is a call of a forward library, and one node of autograd that calls a backward library. So
/// hooks, reduction of gradients, accumulation and sharding work as with any module. Parameters and buffers have the
/// names of the Python module, and its checkpoints are interchangeable. What mn-compile could not compile runs operator
/// by operator. Gradients can't be differentiated again. The libraries are code: a package must belong to the user or
/// to root, and nobody else may write to it.
class CompiledModel : public ExportedModule {
 public:
  /// Makes the model of a package; collective if the file is (exported_file.hpp). Throws a DataError of one line if the
  /// file is not a package, or if this process can't run the package: it names the command that makes the right one.
  explicit CompiledModel(const ExportedFile& file);
  /// Makes the model of ExportedFile(path). Not collective.
  explicit CompiledModel(const std::filesystem::path& path) : CompiledModel(ExportedFile(path)) {}

  using ExportedModule::forward;
  /// Returns the model's first output for `inputs`, by name. Throws ArgumentError if one is missing or unknown.
  [[nodiscard]] at::Tensor forward(const std::map<std::string, at::Tensor>& inputs);
};

}  // namespace mn
