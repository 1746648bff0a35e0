/// The options of jobs/exported.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <mn/app/setup.hpp>
#include <mn/core/options.hpp>

namespace mn::jobs {

struct ExportedOptions : app::CommonOptions {
  ExportedOptions() { decay_all = true; }
  std::string model;
  std::string evaluation_model;  ///< empty: the graph for evaluation is derived from `model`
  std::vector<std::string> operators;
  std::string train;
  std::string validation;           ///< empty: no validation
  std::vector<std::string> inputs;  ///< "INPUT=FIELD"
  std::string output;               ///< empty: the model's only output
  std::string loss = "cross_entropy";
  std::string classes = "auto";
  std::string target = "label";
  std::string label;  ///< name of the label's field; empty: the only field that no input takes, else the second field
  std::int64_t loaderjob = 0;

  /// True if the loss compares the output with targets (--loss is not "output"), and --target is `name`.
  [[nodiscard]] bool compares_with(std::string_view name) const { return loss != "output" && target == name; }
};

/// Declares the options of this job and their checks. `given` holds the defaults now, and the parsed values later.
void declare_options(Options& options, ExportedOptions& given);

}  // namespace mn::jobs
