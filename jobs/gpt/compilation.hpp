/// Compiles the network of jobs/gpt with mn-compile (--compile).
#pragma once

#include <memory>

#include <mn/comm/communicator.hpp>
#include <mn/models/hub_config.hpp>
#include <mn/models/language_model.hpp>

#include "gpt/options.hpp"

namespace mn::jobs {

/// Throws UsageError if --compile does not work with the other options, experts, or packed samples.
void check_compilation(const GptSettings& given, const models::NetworkOptions& network, bool is_packed);

/// Collective: from now on the model trains with the code of --compile. Throws as app::compile_network() does.
void compile_network(models::LanguageModel& model, const GptSettings& given, const models::NetworkOptions& network,
                     std::int64_t context, const std::shared_ptr<Communicator>& comm);

}  // namespace mn::jobs
