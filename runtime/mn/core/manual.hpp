/// Text for manual pages.
#pragma once

#include <string>
#include <string_view>

namespace mn {

/// `text` escaped for man(7): hyphens survive copying, and no line begins with a request.
[[nodiscard]] std::string roff(std::string_view text);

/// A tagged paragraph: `tag` in bold, `text` below it.
[[nodiscard]] std::string manual_item(std::string_view tag, std::string_view text);

}  // namespace mn
