/// Checks that --monitor names a value which the training reports. Every rank throws an equal UsageError for a
/// misspelled or malformed name; any other name may be reported later.
#pragma once

#include <string>
#include <vector>

#include <mn/app/common_options.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/trainer/evaluator.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::app {

/// Collective: checks --monitor by evaluating one minibatch of this rank. `evaluator` reports its values under `name`.
/// Afterwards restores the state of the random numbers and of `iterator`, from which the evaluator reads.
void check_validated_value(const CommonOptions& common, const std::string& name, Evaluator& evaluator,
                           Iterator& iterator, Communicator& comm);

/// Adds an extension that checks --monitor after the first iteration. Call it before adding the log, which takes the
/// values. If the loss function reports "main/VALUE", each of `validations` called NAME reports "NAME/main/VALUE".
void check_reported_value(const CommonOptions& common, std::vector<std::string> validations, Trainer& trainer);

}  // namespace mn::app
