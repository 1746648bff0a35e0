#include <mn/core/host_list.hpp>

#include <algorithm>
#include <cassert>
#include <map>
#include <utility>

#include <mn/core/error.hpp>
#include <mn/core/text.hpp>

namespace mn {
namespace {

constexpr std::size_t kMaxNames = 1'000'000;
constexpr std::size_t kLongestName = 255;  // DNS allows 253
constexpr int kMaxGroups = 8;              // pairs of brackets in a name
constexpr std::size_t kMaxDigits = 18;     // digits that always fit a 64-bit number

[[noreturn]] void malformed(std::string_view list) {
  constexpr std::size_t kMaxQuoted = 200;
  const std::string quoted(list.substr(0, kMaxQuoted));
  throw ArgumentError("\"" + quoted + (list.size() > kMaxQuoted ? "..." : "") +
                      "\" is not a host list: expected the form vn[1,3-5],head");
}

std::uint64_t number(std::string_view digits, std::string_view list) {
  const auto value = parse_number<std::uint64_t>(digits);
  if (!value) malformed(list);
  return *value;
}

std::string padded(std::uint64_t value, std::size_t width) {
  std::string digits = std::to_string(value);
  if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
  return digits;
}

/// Expands ranges: "1,03-05" gives 1, 03, 04, 05.
std::vector<std::string> expand_ranges(std::string_view ranges, std::string_view list) {
  std::vector<std::string> numbers;
  for (const std::string_view item : split(ranges, ',')) {
    const std::size_t dash = item.find('-');
    const std::string_view low = item.substr(0, dash);
    const std::uint64_t first = number(low, list);
    const std::uint64_t last = dash == std::string_view::npos ? first : number(item.substr(dash + 1), list);
    if (last < first || last - first >= kMaxNames - numbers.size() || low.size() > kLongestName) malformed(list);
    for (std::uint64_t i = 0; i <= last - first; ++i) numbers.push_back(padded(first + i, low.size()));
  }
  return numbers;
}

std::vector<std::string> expand_name(std::string_view name, std::string_view list, int groups = kMaxGroups) {
  const std::size_t open = name.find('[');
  if (open == std::string_view::npos) {
    if (name.empty() || name.size() > kLongestName || name.find(']') != std::string_view::npos) malformed(list);
    return {std::string(name)};
  }
  const std::size_t close = name.find(']', open);
  if (close == std::string_view::npos || groups == 0 || open > kLongestName) malformed(list);
  const auto numbers = expand_ranges(name.substr(open + 1, close - open - 1), list);
  const std::string_view rest = name.substr(close + 1);
  const auto tails = rest.empty() ? std::vector<std::string>{""} : expand_name(rest, list, groups - 1);
  if (numbers.size() * tails.size() > kMaxNames) malformed(list);
  std::vector<std::string> names;
  for (const auto& n : numbers) {
    for (const auto& tail : tails) names.push_back(std::string(name.substr(0, open)) + n + tail);
  }
  return names;
}

using SplitName = std::pair<std::string, std::string>;  // the name without its last number, and that number's digits

SplitName split_number(const std::string& name) {
  const std::size_t first = name.find_last_not_of("0123456789") + 1;  // if all are digits, npos + 1 is 0
  return {name.substr(0, first), name.substr(first)};
}

}  // namespace

std::vector<std::string> expand_host_list(std::string_view list) {
  std::vector<std::string> names;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '[') ++depth;
    if (i < list.size() && list[i] == ']') --depth;
    if (depth < 0 || depth > 1) malformed(list);
    if (i == list.size() || (list[i] == ',' && depth == 0)) {
      if (depth != 0) malformed(list);
      if (i == 0 && list.empty()) return names;
      for (auto& name : expand_name(list.substr(begin, i - begin), list)) names.push_back(std::move(name));
      if (names.size() > kMaxNames) malformed(list);
      begin = i + 1;
    }
  }
  assert(names.size() <= kMaxNames);  // rule (3) of host_list.hpp
  return names;
}

std::string number_ranges(const std::set<std::uint64_t>& numbers, std::size_t width) {
  std::string text;
  for (auto it = numbers.begin(); it != numbers.end();) {
    const std::uint64_t first = *it;
    std::uint64_t last = first;
    while (++it != numbers.end() && *it == last + 1) last = *it;
    if (!text.empty()) text += ',';
    text += padded(first, width);
    if (last != first) text += '-' + padded(last, width);
  }
  return text;
}

std::string compress_host_list(std::vector<std::string> names) {
  std::vector<SplitName> numbered;
  std::set<std::string> parts;
  // Maps each prefix to the widths that its numbers may have: the widths of the numbers that begin with 0, and the
  // width 1 if some number does not begin with 0.
  std::map<std::string, std::set<std::size_t>> widths;
  for (const auto& name : names) {
    const auto [prefix, digits] = split_number(name);
    if (digits.empty() || digits.size() > kMaxDigits) {
      parts.insert(name);
      continue;
    }
    widths[prefix].insert(digits[0] == '0' ? digits.size() : 1);
    numbered.emplace_back(prefix, digits);
  }
  // A number without leading zeros joins the range with the greatest width that is not above the number's own width.
  // For example, vn10 joins the range of vn9 or of vn09, and vn100 joins the range of vn09.
  std::map<std::pair<std::string, std::size_t>, std::set<std::uint64_t>> groups;  // by prefix and width
  for (const auto& [prefix, digits] : numbered) {
    const std::size_t width = *std::prev(widths[prefix].upper_bound(digits.size()));
    groups[{prefix, width}].insert(number(digits, prefix));
  }
  for (const auto& [group, numbers] : groups) {
    const auto& [prefix, width] = group;
    const std::string ranges = number_ranges(numbers, width);
    parts.insert(prefix + (numbers.size() == 1 ? ranges : "[" + ranges + "]"));
  }
  return join(parts, ",");
}

std::string abridge_host_list(const std::vector<std::string>& names) {
  constexpr std::size_t kMaxChars = 300;
  constexpr std::ptrdiff_t kShown = 8;
  const std::string whole = compress_host_list(names);
  if (whole.size() <= kMaxChars) return whole;
  const std::set<std::string> each(names.begin(), names.end());
  if (std::ssize(each) <= kShown) return whole;
  return compress_host_list({each.begin(), std::next(each.begin(), kShown)}) + " and " +
         std::to_string(std::ssize(each) - kShown) + " more";
}

}  // namespace mn
