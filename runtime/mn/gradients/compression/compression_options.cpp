#include <mn/gradients/compression/compression_options.hpp>

#include <algorithm>
#include <array>

#include <mn/core/error.hpp>

namespace mn {
namespace {

// The name of each kind of compression. The index is the value of the enumeration `Compression`.
constexpr std::array<std::string_view, 5> kCompressionNames = {"none", "fp16", "bf16", "topk", "powersgd"};

}  // namespace

std::vector<std::string> compression_names() { return {kCompressionNames.begin(), kCompressionNames.end()}; }

Compression parse_compression(std::string_view name) {
  const auto* const found = std::ranges::find(kCompressionNames, name);
  if (found != kCompressionNames.end()) return static_cast<Compression>(found - kCompressionNames.begin());
  std::string text = "unknown compression \"" + std::string(name) + "\"; known:";
  for (const auto known : kCompressionNames) text.append(" ").append(known);
  throw UsageError(text);
}

}  // namespace mn
