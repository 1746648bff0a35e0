/// Sets of logical CPUs. Their text form is Linux's, for example 0-3,8.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <boost/container/flat_set.hpp>

namespace mn::launcher {

/// A sorted vector: it needs little memory, and the root holds the sets of all ranks.
using CpuSet = boost::container::flat_set<int>;

/// Parses a list of CPUs: "0-3,8" gives {0, 1, 2, 3, 8}. No value if the list is malformed or empty.
[[nodiscard]] std::optional<CpuSet> parse_cpus_strictly(std::string_view list);
[[nodiscard]] inline CpuSet parse_cpus(std::string_view list) { return parse_cpus_strictly(list).value_or(CpuSet()); }
[[nodiscard]] std::string format_cpus(const CpuSet& cpus);
[[nodiscard]] CpuSet intersection(const CpuSet& a, const CpuSet& b);

/// The CPUs on which this thread may run, however many CPUs the machine has.
[[nodiscard]] CpuSet affinity_of_this_thread();
/// Binds this thread to `cpus`. Throws UsageError if the kernel does not grant all of these CPUs.
void set_affinity_of_this_thread(const CpuSet& cpus);

}  // namespace mn::launcher
