/// What jobs/exported reads.
#pragma once

#include <memory>
#include <string>

#include <mn/comm/communicator.hpp>
#include <mn/loader/loader.hpp>
#include <mn/nn/exported_module.hpp>

#include "exported/options.hpp"

namespace mn::jobs {

/// Collective. The samples of --train or --validation, which `option` names, as minibatches in the form that the model
/// takes: images are decoded and cropped to its size; arrays get its shape, and bytes become floats from 0 to 1 unless
/// it takes integers. Throws DataError or UsageError on all ranks alike.
[[nodiscard]] std::shared_ptr<DataLoader> open_samples(const std::string& option, const ExportedOptions& options,
                                                       const ExportedInput& input,
                                                       const std::shared_ptr<Communicator>& comm);

}  // namespace mn::jobs
