/// Reads facts on this machine.
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

/// Returns the node's hardware, which hwloc reads. If `compared` is true, the result also has all facts for the checks
/// except NetworkFacts.
[[nodiscard]] NodeFacts collect_node_facts(const Placement& here, const Surroundings& surroundings, bool compared);

/// Reads /proc and /sys, starts no process.
[[nodiscard]] SystemFacts collect_system_facts(const Surroundings& here);
/// Starts the dynamic loader once to list the libraries.
[[nodiscard]] ProgramFacts collect_program_facts(const Surroundings& here);
/// Values of the variables that change how a job runs; long values are shortened.
[[nodiscard]] std::map<std::string, std::string> collect_environment(const Variables& variables);
/// One entry for each --check-file.
[[nodiscard]] std::vector<FileFacts> collect_file_facts(const std::vector<std::filesystem::path>& files);
/// Looks for the network plugin in NCCL's search order, and loads nothing.
[[nodiscard]] NcclFacts collect_nccl_facts(const Surroundings& here);
[[nodiscard]] NetworkFacts collect_network_facts();

/// If `facts` take more than 16 KiB as CBOR, replaces the values of environment variables by hashes.
void limit_size(NodeFacts& facts);
/// Returns "#" and a hash of `value`. A value of that form is returned unchanged.
[[nodiscard]] inline std::string hash_of_value(const std::string& value) {
  const bool is_hash = value.starts_with('#') && value.find_first_not_of("0123456789", 1) == std::string::npos;
  return is_hash ? value : "#" + std::to_string(hash64(value));
}

}  // namespace mn::launcher
