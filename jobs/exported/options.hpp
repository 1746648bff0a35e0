/// The options of jobs/exported.
#pragma once

#include <cstdint>
#include <string>

#include <mn/app/setup.hpp>
#include <mn/core/options.hpp>

namespace mn::jobs {

struct ExportedOptions : app::CommonOptions {
  ExportedOptions() { decay_all = true; }
  std::string model;
  std::string evaluation_model;  ///< empty: the evaluation graph follows from the model's own
  std::string train;
  std::string validation;  ///< empty: none
  std::string loss = "cross_entropy";
  std::string target = "label";
  std::int64_t loaderjob = 0;
};

/// Declares those that are not common to all jobs, with their check; the values in `given` are the defaults.
void declare_options(Options& options, ExportedOptions& given);

}  // namespace mn::jobs
