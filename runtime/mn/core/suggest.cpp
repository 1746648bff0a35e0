#include <mn/core/suggest.hpp>

#include <algorithm>
#include <numeric>
#include <vector>

namespace mn {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> candidates) {
  const auto distance = [&](const std::string& candidate) {
    return name.size() > 2 && candidate.starts_with(name) ? 1 : edit_distance(name, candidate);
  };
  const auto best = std::ranges::min_element(candidates, {}, distance);
  if (best == candidates.end() || distance(*best) > 1 + name.size() / 3) return std::nullopt;
  return *best;
}

}  // namespace mn
