/// Opens the samples of jobs/exported.
#pragma once

#include <memory>
#include <string>

#include <mn/comm/communicator.hpp>
#include <mn/loader/loader.hpp>
#include <mn/nn/exported_module.hpp>

#include "exported/options.hpp"

namespace mn::jobs {

/// Collective: opens the datasets that --train or --validation names. `names` is the value of this option, and `option`
/// is its name without dashes. A minibatch has a field for each of the model's inputs and, with --target label, a field
/// with the labels. Images are decoded and cropped to the size of the model's input. Arrays get the shape of the
/// model's input; their uint8 values become floats from 0 to 1 unless the input takes integers. Throws the same
/// DataError or UsageError on all ranks if the model cannot take the samples, or if --loss cannot compare the model's
/// output with the targets.
[[nodiscard]] std::shared_ptr<DataLoader> open_samples(const std::string& option, const std::string& names,
                                                       const ExportedOptions& options, const ExportedModule& model,
                                                       const std::shared_ptr<Communicator>& comm);

/// The index of the model's output that --output names. Without --output, the index of the output "loss" if --loss is
/// "output", else of the only output. If there is no such output, throws a UsageError that lists the outputs.
[[nodiscard]] std::size_t find_output(const ExportedModule& model, const ExportedOptions& options);

}  // namespace mn::jobs
