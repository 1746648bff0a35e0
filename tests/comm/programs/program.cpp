#include "tests/comm/programs/program.hpp"

namespace mn::testing {

std::string_view name_of(Call call) {
  constexpr std::string_view kNames[] = {"send",
                                         "recv",
                                         "isend",
                                         "irecv",
                                         "wait",
                                         "is_done and wait",
                                         "~Request",
                                         "sendrecv",
                                         "send_obj",
                                         "recv_obj",
                                         "bcast",
                                         "gather",
                                         "allgather",
                                         "alltoall",
                                         "scatter",
                                         "allreduce",
                                         "allreduce in memory from allocate()",
                                         "reduce_scatter",
                                         "barrier",
                                         "allreduce_grad",
                                         "bcast_obj",
                                         "gather_obj",
                                         "allgather_obj",
                                         "scatter_obj",
                                         "allreduce_obj",
                                         "reduce",
                                         "gatherv",
                                         "scatterv",
                                         "allgatherv",
                                         "alltoallv",
                                         "ibcast",
                                         "iallgather",
                                         "iallreduce",
                                         "ireduce_scatter",
                                         "wait for a collective call",
                                         "monitored_barrier",
                                         "split",
                                         "the program's own calls"};
  return kNames[static_cast<std::size_t>(call)];
}

std::string describe(const Action& action) {
  return std::string(name_of(action.call)) + " number " + std::to_string(action.id) + " of " +
         std::to_string(action.count) + " " + std::string(mn::name_of(action.dtype)) +
         (action.on_device ? " on a GPU" : "") + (action.in_place ? " in place" : "") +
         (action.from_any ? " from any rank" : "") + ", group " + std::to_string(action.group) + ", peer " +
         std::to_string(action.peer) + ", tag " + std::to_string(action.tag);
}

std::string describe(const Conditions& conditions) {
  std::string text;
  if (conditions.has_timeout) text += ", time-out";
  if (conditions.is_debug) text += ", debug mode";
  if (conditions.count_limit != INT_MAX) text += ", at most " + std::to_string(conditions.count_limit) + " elements";
  if (!conditions.network.empty()) text += ", MN_NETWORK=" + conditions.network;
  if (conditions.shared_bytes > 0) text += ", " + std::to_string(conditions.shared_bytes) + " bytes of /dev/shm";
  if (conditions.ranks_of_domain > 0) text += ", domains of " + std::to_string(conditions.ranks_of_domain);
  return text;
}

std::size_t Program::calls() const {
  std::size_t sum = 0;
  for (const auto& each : actions) sum += each.size();
  return sum;
}

}  // namespace mn::testing
