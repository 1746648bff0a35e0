/// The frame of a page: style, script and sections. A page loads no other file.
#pragma once

#include <optional>
#include <string>

namespace mn::report {

/// A whole page. `body` is HTML. With `refresh_s`, a browser loads the page again after that many seconds.
[[nodiscard]] std::string make_page(const std::string& title, const std::string& body,
                                    std::optional<int> refresh_s = std::nullopt);

/// A section with a heading; empty if `content` is empty.
[[nodiscard]] std::string section(const std::string& heading, const std::string& content);
/// Content that a click unfolds; empty if `content` is empty.
[[nodiscard]] std::string folded(const std::string& summary, const std::string& content);

}  // namespace mn::report
