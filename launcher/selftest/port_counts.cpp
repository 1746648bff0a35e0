#include "selftest/port_counts.hpp"

#include <algorithm>

#include "selftest/results.hpp"

namespace mn::selftest {

std::string judge_ports(const std::vector<launcher::PortFacts>& before, const std::vector<launcher::PortFacts>& after) {
  constexpr std::int64_t kMaxErrors = 10;  // errors in a test of minutes
  if (before.empty()) return "";
  std::vector<std::string> sentences;
  for (const auto& port : after) {
    const auto then = std::ranges::find(before, port.name, &launcher::PortFacts::name);
    if (then == before.end()) continue;
    const auto downs = port.downs.value_or(0) - then->downs.value_or(0);
    const auto errors = port.errors.value_or(0) - then->errors.value_or(0);
    if (downs > 0) sentences.push_back(port.name + " lost its link " + std::to_string(downs) + " times");
    if (errors > kMaxErrors) sentences.push_back(port.name + " counted " + std::to_string(errors) + " errors");
  }
  return verdict_of(sentences);
}

}  // namespace mn::selftest
