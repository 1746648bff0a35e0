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
  std::string evaluation_model;  ///< empty: the evaluation graph follows from the model's own
  std::vector<std::string> operators;
  std::string train;
  std::string validation;           ///< empty: none
  std::vector<std::string> inputs;  ///< "INPUT=FIELD"
  std::string output;               ///< empty: the only one
  std::string loss = "cross_entropy";
  std::string classes = "auto";
  std::string target = "label";
  std::string label;  ///< a field; empty: the second one, or the only one that is not an input
  std::int64_t loaderjob = 0;

  /// Whether the model's output is compared with that target: label, next or input. --loss output compares nothing.
  [[nodiscard]] bool compares_with(std::string_view name) const { return loss != "output" && target == name; }
};

/// Declares those that are not common to all jobs, with their check; the values in `given` are the defaults.
void declare_options(Options& options, ExportedOptions& given);

}  // namespace mn::jobs
