/// Sets of logical CPUs, written as Linux writes them: 0-3,8.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <boost/container/flat_set.hpp>

namespace mn::launcher {

/// Sorted; a few bytes for each CPU, as the root holds those of all ranks.
using CpuSet = boost::container::flat_set<int>;

/// "0-3,8" → {0, 1, 2, 3, 8}; no value if anything in the list is malformed, or if it names no CPU.
[[nodiscard]] std::optional<CpuSet> parse_cpus_strictly(std::string_view list);
/// The same; empty where that has no value.
[[nodiscard]] inline CpuSet parse_cpus(std::string_view list) { return parse_cpus_strictly(list).value_or(CpuSet()); }
[[nodiscard]] std::string format_cpus(const CpuSet& cpus);
[[nodiscard]] CpuSet intersection(const CpuSet& a, const CpuSet& b);

/// The CPUs that this thread may run on. Works for any number of CPUs.
[[nodiscard]] CpuSet affinity_of_this_thread();
/// Throws UsageError if the kernel does not give it all of them.
void set_affinity_of_this_thread(const CpuSet& cpus);

}  // namespace mn::launcher
