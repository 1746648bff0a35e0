/// Slurm's compact notation for host names: vn[1,3-5],head and back. Numbers keep their leading zeros.
/// Notation: slurm.conf(5), NodeName; several bracket groups in one name are allowed (r[1-2]n[0-3]).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mn {

/// The names in the order written. Throws ArgumentError that quotes the list if it is malformed, or holds over a
/// million names or one of over 255 characters.
[[nodiscard]] std::vector<std::string> expand_host_list(std::string_view list);

/// The shortest usual form, sorted, each name once: {vn2, vn1, head} → head,vn[1-2].
[[nodiscard]] std::string compress_host_list(std::vector<std::string> names);

/// The same for a line that a person reads: where it would be long, the first names and the number of the others.
[[nodiscard]] std::string abridge_host_list(const std::vector<std::string>& names);

}  // namespace mn
