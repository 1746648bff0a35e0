/// The frame of a page: style, script and sections. A page is one file, and needs no other file.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mn::report {

/// Makes a whole page. `body` is HTML. If `refresh_s` is given, a browser loads the page again after so many seconds.
[[nodiscard]] std::string make_page(const std::string& title, const std::string& body,
                                    std::optional<int> refresh_s = std::nullopt);

/// True if a file that begins with the text `head` is a page of make_page().
[[nodiscard]] bool is_page(std::string_view head);

/// Makes a section with a heading and the HTML `content`. Empty if `content` is empty.
[[nodiscard]] std::string section(const std::string& heading, const std::string& content);
/// Makes a line with the text `summary`. A click on the line shows the HTML `content`. Empty if `content` is empty.
[[nodiscard]] std::string folded(const std::string& summary, const std::string& content);

}  // namespace mn::report
