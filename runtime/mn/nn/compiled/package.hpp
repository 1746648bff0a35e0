/// The libraries in a package of mn-compile (.mnc), and what they need.
///
/// A package is an archive of torch.export.save in whose graphs a node with the target kCall stands for a segment of
/// the model. It also has compiled/metadata.json, the libraries compiled/N.forward.so and compiled/N.backward.so, and
/// the graph for evaluation mode, models/evaluation.json (python/mn_compile/package.py).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <mn/nn/compiled/segment.hpp>
#include <mn/nn/exported/archive.hpp>
#include <mn/nn/exported/program.hpp>

namespace mn::compiled {

constexpr const char* kMetadata = "compiled/metadata.json";
constexpr const char* kCall = "torch.ops.mn.compiled.default";

/// What metadata.json says, but for the segments.
struct Needs {
  std::string torch;       ///< version of libtorch, "2.11.0"
  std::string device;      ///< "cpu" or "cuda"
  std::string capability;  ///< least instruction set, as at::get_cpu_capability(), or the GPU's architecture, "sm_90"
  std::vector<std::string> flags;   ///< flags in /proc/cpuinfo that the processor must have
  std::string precision;            ///< "fp32" or "bf16"
  std::string command;              ///< makes the package again
  bool derives_evaluation = false;  ///< models/evaluation.json holds the graph for training
  bool has_batch_norm = false;
  nlohmann::json network;  ///< --network as "type", and --sizes as "sizes"; null for a model of one's own
};

class Package {
 public:
  /// Reads the metadata. `code` maps the names of the records with code, *.so, to their bytes. Throws a DataError of
  /// one line if the metadata is damaged, or if this process can't run the libraries.
  Package(const exported::Archive& archive, std::map<std::string, std::string> code);

  [[nodiscard]] const Needs& needs() const noexcept { return needs_; }
  /// Gives each node of the program that stands for a segment its call. Throws DataError if there is no such segment.
  void connect(exported::Program& program) const;

 private:
  void check_process() const;

  std::string source_;
  Needs needs_;
  std::map<std::string, std::shared_ptr<const Segment>> segments_;
};

}  // namespace mn::compiled
