#include <mn/trainer/memory_account.hpp>

#include <algorithm>
#include <array>
#include <iomanip>
#include <set>
#include <string_view>
#include <utility>

#include <mn/core/classic_stream.hpp>
#include <mn/core/text.hpp>

namespace mn {
namespace {

constexpr std::array kWays = {Shard::kNone, Shard::kOptimizer, Shard::kGradients, Shard::kParameters};

std::uint64_t share_of(std::uint64_t bytes, bool is_divided, int ranks) {
  const auto parts = static_cast<std::uint64_t>(is_divided ? ranks : 1);
  return (bytes + parts - 1) / parts;
}

/// The parts of an account with their names, in the order of the table's columns.
std::vector<std::pair<std::string_view, std::uint64_t>> parts_of(const MemoryAccount& account) {
  return {{"parameters", account.parameters}, {"gradients", account.gradients}, {"optimizer", account.optimizer},
          {"gathered", account.gathered},     {"buffers", account.buffers},     {"activations", account.activations}};
}

/// The option that makes a part of the account smaller. Empty if no option does.
std::string option_for(std::string_view part, Shard what) {
  if (part == "activations") return "--recompute, --offload activations, or a smaller --batchsize with --accumulate";
  if (part == "gathered" || part == "buffers") return "blocks with fewer parameters";
  const Shard needed = part == "parameters"  ? Shard::kParameters
                       : part == "gradients" ? Shard::kGradients
                                             : Shard::kOptimizer;
  return what < needed ? "--shard " + std::string(shard_name(needed)) : "more ranks";
}

}  // namespace

MemoryAccount memory_account(const ModelBytes& model, Shard what, int ranks) {
  MemoryAccount account{.parameters = share_of(model.parameters, what >= Shard::kParameters, ranks),
                        .gradients = share_of(model.gradients, what >= Shard::kGradients, ranks),
                        .optimizer = share_of(model.optimizer, what >= Shard::kOptimizer, ranks)};
  if (what >= Shard::kParameters) account.gathered = 2 * model.gathered_unit;
  if (what >= Shard::kGradients) account.buffers = 2 * model.largest_unit;
  return account;
}

std::string memory_table(const ModelBytes& model, Shard what, int ranks, std::uint64_t activations) {
  OutText table;
  table << std::left << std::setw(28) << "Memory of a rank";
  for (const auto& [name, bytes] : parts_of({})) table << std::right << std::setw(12) << name;
  table << std::setw(12) << "total" << '\n';
  for (const int count : std::set<int>{ranks, 8, 64, 512}) {
    for (const Shard way : kWays) {
      MemoryAccount account = memory_account(model, way, count);
      account.activations = activations;
      const bool is_present = way == what && count == ranks;
      table << std::left << std::setw(28)
            << (is_present ? "> " : "  ") + std::to_string(count) + " ranks, --shard " + std::string(shard_name(way));
      for (const auto& [name, bytes] : parts_of(account)) table << std::right << std::setw(12) << bytes_text(bytes);
      table << std::setw(12) << bytes_text(account.total()) << '\n';
    }
  }
  return table.str();
}

std::string memory_advice(const MemoryAccount& account, Shard what) {
  auto parts = parts_of(account);
  std::ranges::stable_sort(parts, std::ranges::greater(), [](const auto& part) { return part.second; });
  std::string text = "a rank needs about " + bytes_text(account.total()) + ", most of it for ";
  for (std::size_t i = 0; i < 2; ++i) {
    text += (i > 0 ? " and " : "") + std::string(parts[i].first) + " (" + bytes_text(parts[i].second) + ")";
  }
  return text + "; use " + option_for(parts.front().first, what);
}

}  // namespace mn
