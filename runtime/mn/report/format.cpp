#include <mn/report/format.hpp>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iterator>
#include <utility>

#include <mn/core/classic_stream.hpp>
#include <mn/core/json.hpp>

namespace mn::report {
namespace {

std::string significant(double value, int digits) {
  OutText text;
  text << std::setprecision(digits) << value;
  return text.str();
}

}  // namespace

std::string escape_html(std::string_view text) {
  constexpr std::pair<char, const char*> kEscapes[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  const auto valid = parse_json(json_text(text), "a text").get<std::string>();  // json_text() replaces other bytes
  std::string escaped;
  for (const char c : valid) {
    const auto* found = std::ranges::find(kEscapes, c, &std::pair<char, const char*>::first);
    escaped += found != std::end(kEscapes) ? found->second : std::string(1, c);
  }
  return escaped;
}

std::string short_number(double value) {
  if (value == 0) value = 0;  // turns −0 into 0
  const double size = std::abs(value);
  if (size < 1e4 || size >= 1e9) return significant(value, 4);
  OutText text;
  text << std::fixed << std::setprecision(0) << value;
  return text.str();
}

std::string count_text(double count) {
  for (const auto& [unit, name] : {std::pair(1e12, " T"), std::pair(1e9, " G"), std::pair(1e6, " M")}) {
    if (count >= 10 * unit) return significant(count / unit, 3) + name;
  }
  std::string digits = short_number(std::round(count));
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

std::string counted(double count, const std::string& thing) {
  return count_text(count) + " " + thing + (count == 1 ? "" : "s");
}

std::string percent(double share) { return significant(100 * share, share < 0.1 ? 2 : 3) + " %"; }

}  // namespace mn::report
