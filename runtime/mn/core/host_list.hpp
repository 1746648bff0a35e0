/// Expands and compresses Slurm's compact notation for host names, such as vn[1,3-5],head.
///
/// Expanding: (1) brackets do not nest, and a name has at most 8 groups (r[1-2]n[0-3]); (2) numbers keep the width of
/// the range's first number (03-05); (3) no list makes more than a million names, so memory is bounded.
/// Compressing: names that differ only in their last number become one range. A number with leading zeros joins only
/// numbers of its width, since 9 and 09 are different hosts. Cost: O(n log n).
/// Source: slurm.conf(5), NodeName; scontrol(1), "show hostnames".
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace mn {

/// Returns the names in the order of `list`. Throws ArgumentError if the list is malformed, has too many names, or has
/// too long a name.
[[nodiscard]] std::vector<std::string> expand_host_list(std::string_view list);

/// Returns numbers in short, such as "0-3,7". Numbers of less than `width` digits get leading zeros.
[[nodiscard]] std::string number_ranges(const std::set<std::uint64_t>& numbers, std::size_t width = 1);

/// Returns the names as a text in Slurm's short form. The names are sorted, and each is listed once: {vn2, vn1, head}
/// gives head,vn[1-2].
[[nodiscard]] std::string compress_host_list(std::vector<std::string> names);

/// The same as compress_host_list(), but shortened for people: a long list is cut to its first names, and the number of
/// the names left out is added.
[[nodiscard]] std::string abridge_host_list(const std::vector<std::string>& names);

}  // namespace mn
