/// Text for manual pages.
#pragma once

#include <string>
#include <string_view>

namespace mn {

/// Returns `text` escaped for man(7): hyphens can be copied from the page, and no line is taken for a request of roff.
[[nodiscard]] std::string roff(std::string_view text);

/// Returns a tagged paragraph of man(7): `tag` in bold, and `text` below the tag.
[[nodiscard]] std::string manual_item(std::string_view tag, std::string_view text);

}  // namespace mn
