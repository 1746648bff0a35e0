/// What jobs/exported reads.
#pragma once

#include <memory>
#include <string>

#include <mn/comm/communicator.hpp>
#include <mn/loader/loader.hpp>
#include <mn/nn/exported_module.hpp>

#include "exported/options.hpp"

namespace mn::jobs {

/// Collective. The samples of --train or --validation, which `option` names, as minibatches: a field for each of the
/// model's inputs, then the labels of --target label. Images are decoded and cropped to the model's size; arrays get
/// its shape, and bytes become floats from 0 to 1 unless it takes integers. Throws DataError or UsageError on all ranks
/// alike, if the model can't take such samples or minibatches, or --loss can't compare its output with their targets.
[[nodiscard]] std::shared_ptr<DataLoader> open_samples(const std::string& option, const ExportedOptions& options,
                                                       const ExportedModule& model,
                                                       const std::shared_ptr<Communicator>& comm);

/// The position of the output that --output names, of the only one, or of "loss" with --loss output. Throws UsageError
/// that lists the names.
[[nodiscard]] std::size_t find_output(const ExportedModule& model, const ExportedOptions& options);

}  // namespace mn::jobs
