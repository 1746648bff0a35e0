#include <mn/comm/agreement.hpp>

namespace mn {

bool same_on_all_ranks(std::uint64_t value, Communicator& comm) {
  // The least value, and the complement of the greatest.
  const auto number = static_cast<std::int64_t>(value);
  std::int64_t extremes[] = {number, ~number};
  comm.allreduce(extremes, ReduceOp::kMin);
  return extremes[0] == ~extremes[1];
}

}  // namespace mn
