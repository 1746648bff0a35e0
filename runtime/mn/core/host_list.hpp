/// Expands and compresses Slurm's compact notation for host names, for example vn[1,3-5],head.
///
/// Rules for expanding a list: (1) Brackets do not nest, and a name has at most 8 pairs of brackets, for example
/// r[1-2]n[0-3]. (2) All numbers of a range get the width of the first number, as in 03-05. (3) A list makes at most a
/// million names, so memory is bounded.
/// Rules for compressing names: Names that differ only in their last number become one range. A number with leading
/// zeros joins only numbers of its own width, because vn9 and vn09 are different hosts. Cost: O(n log n).
/// Source: slurm.conf(5), NodeName; scontrol(1), "show hostnames".
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace mn {

/// Returns the names in the order of `list`. Throws ArgumentError for a malformed list, or too many or too long names.
[[nodiscard]] std::vector<std::string> expand_host_list(std::string_view list);

/// Writes the numbers in a short form, for example "0-3,7". Numbers of less than `width` digits get leading zeros.
[[nodiscard]] std::string number_ranges(const std::set<std::uint64_t>& numbers, std::size_t width = 1);

/// Writes the names in Slurm's short form, sorted and without duplicates: {vn2, vn1, head} gives head,vn[1-2].
[[nodiscard]] std::string compress_host_list(std::vector<std::string> names);

/// Like compress_host_list(), but shows only the first names of a long list, and tells how many names are left out.
[[nodiscard]] std::string abridge_host_list(const std::vector<std::string>& names);

}  // namespace mn
