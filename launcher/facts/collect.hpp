/// Reads facts about this machine, this rank and its program, for comparison between nodes.
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

/// Returns the hardware and, if `compared` is true, all facts that the checks compare except NetworkFacts.
[[nodiscard]] NodeFacts collect_node_facts(const Placement& here, const Surroundings& surroundings, bool compared);

/// Reads files below /proc and /sys, and starts no process.
[[nodiscard]] SystemFacts collect_system_facts(const Surroundings& here);
/// Starts the dynamic loader once, to list the program's libraries.
[[nodiscard]] ProgramFacts collect_program_facts(const Surroundings& here);
/// The versions of Python and its packages, from names of files: Python is not started. Empty if the program is neither
/// a Python nor a script of one.
[[nodiscard]] std::map<std::string, std::string> collect_python_facts(const Surroundings& here);
/// The environment variables that change how a job runs. Long values are shortened.
[[nodiscard]] std::map<std::string, std::string> collect_environment(const Variables& variables);
/// One entry for each file of --check-file.
[[nodiscard]] std::vector<FileFacts> collect_file_facts(const std::vector<std::filesystem::path>& files);
/// Looks for NCCL's network plugin in the folders that NCCL searches. Does not load the plugin.
[[nodiscard]] NcclFacts collect_nccl_facts(const Surroundings& here);
[[nodiscard]] NetworkFacts collect_network_facts();

/// If `facts` take more than 16 KiB as CBOR, replaces the values of environment variables by hashes.
void limit_size(NodeFacts& facts);
/// Returns "#" and a hash of `value`, or an unchanged `value` if it already has the form "#HASH".
[[nodiscard]] inline std::string hash_of_value(const std::string& value) {
  const bool is_hash = value.starts_with('#') && value.find_first_not_of("0123456789", 1) == std::string::npos;
  return is_hash ? value : "#" + std::to_string(hash64(value));
}

}  // namespace mn::launcher
