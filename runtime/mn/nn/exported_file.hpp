/// Files of models that Python has exported, read by each rank or by rank 0 for all ranks.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

namespace mn {

class Communicator;
class RootWork;

namespace compiled {
class Package;
}  // namespace compiled

namespace exported {
class Archive;
struct Program;
struct StoredTensor;
}  // namespace exported

/// A file that Python's torch.export.save (.pt2, torch 2.9 or newer) or mn-compile (.mnc) has written. The libraries of
/// an .mnc file are code: the file must belong to the user or to root, and nobody else may write to it. An
/// ExportedModule reads the tensors one after the other. The constructors throw a DataError of one line that names the
/// absent, damaged or unknown part of the file.
class ExportedFile {
 public:
  /// Opens a file. Not collective.
  explicit ExportedFile(const std::filesystem::path& path);
  /// Takes the bytes of a .pt2 file, which must outlive this object. Messages call the file `source`. Not collective.
  ExportedFile(std::string_view bytes, const std::string& source);
  /// Collective: rank 0 opens the file for all ranks. All ranks must make ExportedModules together; each module has the
  /// values that rank 0 reads, and no rank needs memory for the whole file. Throws an equal DataError on every rank.
  ExportedFile(const std::filesystem::path& path, std::shared_ptr<Communicator> comm);

  /// The file's name in messages.
  [[nodiscard]] const std::string& source() const;
  /// Returns the file without values, for modules that only check: their tensors are on the device meta. Then modules
  /// are not made together.
  [[nodiscard]] ExportedFile without_values() const;
  /// The precision with which mn-compile has compiled the model, "fp32" or "bf16"; empty for a .pt2 file.
  [[nodiscard]] std::string precision() const;
  /// What mn-compile was given as --network ("type") and --sizes ("sizes"); null for other models.
  [[nodiscard]] nlohmann::json network() const;

 private:
  friend class ExportedModule;
  friend class ExportedTensors;
  /// Reads a tensor, which belongs to the module's state if `is_state`. Collective if the file is.
  [[nodiscard]] at::Tensor read(const std::string& name, const exported::StoredTensor& stored, bool is_state) const;
  /// Collective if the file is. If rank 0 could not read a tensor, throws an equal DataError on every rank.
  void agree() const;
  /// Loads the programs, and the libraries if the file is a package. Collective if the file is.
  void load();
  [[nodiscard]] std::string read_code(const std::string& name) const;

  std::shared_ptr<const exported::Archive> archive_;  // if `comm_` is not null, only rank 0's has tensors
  std::shared_ptr<const exported::Program> program_;
  std::shared_ptr<const exported::Program> evaluation_;  // null: evaluation's graph is derived from program_
  std::shared_ptr<const compiled::Package> package_;     // null: no libraries
  std::shared_ptr<Communicator> comm_;                   // null: not collective
  std::shared_ptr<RootWork> work_;                       // reads tensors if `comm_` is not null
  bool has_values_ = true;
};

}  // namespace mn
