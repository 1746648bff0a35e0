// Free functions by which ranks find out whether all of them hold equal values.
#include <algorithm>

#include <mn/comm/calls/call_check.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>

namespace mn {

bool same_on_all_ranks(std::uint64_t value, Communicator& comm) {
  // With the complement, one reduction by maximum also finds the minimum.
  const auto number = static_cast<std::int64_t>(value);
  std::int64_t extremes[] = {number, ~number};
  comm.allreduce(extremes, ReduceOp::kMin);
  return extremes[0] == ~extremes[1];
}

void prove_equal(const nlohmann::json& object, std::string_view what, Communicator& comm) {
  if (same_on_all_ranks(hash64(json_text(object)), comm)) return;
  const auto all = comm.allgather_obj(object);
  const auto other = std::ranges::find_if(all, [&](const auto& each) { return each != all.front(); });
  nlohmann::json keys = all.front();
  keys.update(*other);
  std::string key;
  for (const auto& [name, value] : keys.items()) {
    const bool on_both = other->contains(name) && all.front().contains(name);
    if (key.empty() && (!on_both || other->at(name) != all.front().at(name))) key = name;
  }
  const auto on = [&](const nlohmann::json& each) { return each.contains(key) ? json_text(each.at(key)) : "absent"; };
  throw UsageError("the ranks differ in " + std::string(what) + ": " + key + " is " + on(all.front()) +
                   " on rank 0 and " + on(*other) + " on rank " + std::to_string(other - all.begin()) +
                   "; give every rank the same");
}

std::uint64_t collective_calls() noexcept { return CallCheck::calls_of_thread(); }

}  // namespace mn
