#include <mn/comm/messages/document_sum.hpp>

#include <algorithm>
#include <cstdint>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

namespace mn {
namespace {

using nlohmann::json;

__extension__ typedef __int128 WideInteger;  // holds the sum of one 64-bit integer of each rank
using Documents = std::vector<const json*>;  // by rank

[[noreturn]] void not_alike(const json& a, const json& b) {
  throw ArgumentError("allreduce_obj: ranks gave documents of different form: " + json_text(a) + " and " + json_text(b),
                      true);
}

WideInteger integer_of(const json& number) {
  return number.is_number_unsigned() ? WideInteger{number.get<std::uint64_t>()}
                                     : WideInteger{number.get<std::int64_t>()};
}

json integer_sum(const Documents& numbers) {
  WideInteger sum = 0;
  for (const json* number : numbers) sum += integer_of(*number);
  if (const auto narrow = static_cast<std::int64_t>(sum); narrow == sum) return narrow;
  if (const auto narrow = static_cast<std::uint64_t>(sum); narrow == sum) return narrow;
  throw ArgumentError(
      "allreduce_obj: a sum that begins with " + json_text(*numbers.front()) + " does not fit 64 bits: give floats",
      true);
}

json number_sum(const Documents& numbers) {
  if (std::ranges::all_of(numbers, [](const json* number) { return number->is_number_integer(); })) {
    return integer_sum(numbers);
  }
  auto sum = numbers.front()->get<double>();
  for (std::size_t rank = 1; rank < numbers.size(); ++rank) sum += numbers[rank]->get<double>();
  return sum;
}

bool are_alike(const json& a, const json& b) {
  if (a.is_number() && b.is_number()) return true;
  return a.type() == b.type() && a.size() == b.size() && (a.is_structured() || a == b);
}

json sum_of(const Documents& all) {
  const json& first = *all.front();
  for (const json* each : all) {
    if (!are_alike(first, *each)) not_alike(first, *each);
  }
  if (first.is_number()) return number_sum(all);
  json sum = first;
  const auto sum_at = [&all](const auto& key) {
    Documents parts;
    for (const json* each : all) parts.push_back(&each->at(key));
    return sum_of(parts);
  };
  if (first.is_array()) {
    for (std::size_t i = 0; i < first.size(); ++i) sum[i] = sum_at(i);
  } else if (first.is_object()) {
    for (const auto& [key, value] : first.items()) {
      for (const json* each : all) {
        if (!each->contains(key)) not_alike(first, *each);
      }
      sum[key] = sum_at(key);
    }
  }
  return sum;
}

}  // namespace

json sum_of_documents(const std::vector<json>& documents) {
  Documents by_rank;
  for (const json& document : documents) by_rank.push_back(&document);
  return sum_of(by_rank);
}

}  // namespace mn
