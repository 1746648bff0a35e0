/// Text for manual pages.
#pragma once

#include <string>
#include <string_view>

namespace mn {

/// As man(7) takes it: hyphens that copy as such, no request at the start of a line.
[[nodiscard]] std::string roff(std::string_view text);

/// A tagged paragraph: `tag` in bold, `text` below it.
[[nodiscard]] std::string manual_item(std::string_view tag, std::string_view text);

}  // namespace mn
