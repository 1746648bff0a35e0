/// Reads facts about this machine, this rank and its program. The checks compare the facts of all nodes.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <mn/core/checksum.hpp>

#include "facts/facts.hpp"
#include "facts/surroundings.hpp"
#include "place/placement.hpp"

namespace mn::launcher {

[[nodiscard]] RankFacts collect_rank_facts(const Placement& here, const Surroundings& surroundings);

/// Returns the hardware, and all facts that the checks compare except NetworkFacts if `compared` is true.
[[nodiscard]] NodeFacts collect_node_facts(const Placement& here, const Surroundings& surroundings, bool compared);

/// Reads files below /proc and /sys, and starts no process.
[[nodiscard]] SystemFacts collect_system_facts(const Surroundings& here);
/// Starts the dynamic loader once, because the loader lists the program's libraries.
[[nodiscard]] ProgramFacts collect_program_facts(const Surroundings& here);
/// The values of the environment variables that change how a job runs. Long values are shortened.
[[nodiscard]] std::map<std::string, std::string> collect_environment(const Variables& variables);
/// Returns one entry for each file that the option --check-file names.
[[nodiscard]] std::vector<FileFacts> collect_file_facts(const std::vector<std::filesystem::path>& files);
/// Looks for NCCL's network plugin in the folders in which NCCL would find it, but does not load the plugin.
[[nodiscard]] NcclFacts collect_nccl_facts(const Surroundings& here);
[[nodiscard]] NetworkFacts collect_network_facts();

/// If `facts` take more than 16 KiB as CBOR, replaces the values of environment variables by hashes of the values.
void limit_size(NodeFacts& facts);
/// Returns "#" followed by a hash of `value`. If `value` already has this form, returns `value` unchanged.
[[nodiscard]] inline std::string hash_of_value(const std::string& value) {
  const bool is_hash = value.starts_with('#') && value.find_first_not_of("0123456789", 1) == std::string::npos;
  return is_hash ? value : "#" + std::to_string(hash64(value));
}

}  // namespace mn::launcher
