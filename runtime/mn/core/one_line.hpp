/// Text for messages and for files of one entry a line.
#pragma once

#include <string>
#include <string_view>

namespace mn {

/// Makes the text one line: replaces line ends and other control characters, which names of files may hold, by "?".
[[nodiscard]] std::string one_line(std::string_view text);

}  // namespace mn
