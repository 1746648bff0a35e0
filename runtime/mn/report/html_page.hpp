/// The frame of a page: style, script and sections. A page needs no other file.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mn::report {

/// Makes a whole page; `body` is HTML. A browser loads the page again after `refresh_s` seconds, if given.
[[nodiscard]] std::string make_page(const std::string& title, const std::string& body,
                                    std::optional<int> refresh_s = std::nullopt);

/// Whether a file that begins with `head` is a page of make_page().
[[nodiscard]] bool is_page(std::string_view head);

/// Makes a section with a heading. Empty if `content` is empty.
[[nodiscard]] std::string section(const std::string& heading, const std::string& content);
/// Makes a line that shows `content` after a click. Empty if `content` is empty.
[[nodiscard]] std::string folded(const std::string& summary, const std::string& content);

}  // namespace mn::report
