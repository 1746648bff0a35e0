/// Random programs: calls of communicators in an order that MPI's rules allow, for 1 rank or more.
///
/// All ranks make equal programs from a seed, and each runs its own part.
///
/// Invariants: 1. Calls have a time. A blocking call does not come before the calls that end the wait: a send comes
/// with or after its posted receive, and vice versa, a wait after both halves of its message, a collective call at one
/// time on all ranks. Ranks that run their parts in the order of time therefore never wait in a circle, if a message
/// with both halves posted progresses while either rank waits. 2. A receive takes the first unreceived message from the
/// source, with an equal tag or with any tag. The program knows the message. A message for a receive from any rank has
/// a tag of its own. 3. Sent values follow from the call's number, the rank and the index; expected results follow from
/// them.
#pragma once

#include <climits>
#include <cstdint>
#include <string>
#include <vector>

#include <mn/core/buffer.hpp>

namespace mn::testing {

enum class Call : std::uint8_t {
  kSend,
  kRecv,
  kIsend,
  kIrecv,
  kWait,        ///< for the request of message `id`
  kWaitPolls,   ///< kWait after is_done()
  kWaitLeaves,  ///< the request goes out of scope
  kSendrecv,    ///< to the rank `peer` further, from the rank as far before
  kSendObject,
  kRecvObject,
  kBcast,
  kGather,
  kAllgather,
  kAlltoall,
  kScatter,
  kAllreduce,
  kAllreduceAllocated,  ///< in memory from allocate()
  kReduceScatter,
  kBarrier,
  kGradients,
  kBcastObject,
  kGatherObject,
  kAllgatherObject,
  kScatterObject,
  kAllreduceObject,
  kReduce,
  kGatherv,  ///< parts of a rank's own length, some empty
  kScatterv,
  kAllgatherv,
  kAlltoallv,
  kIbcast,  ///< these go on in the background, …
  kIallgather,
  kIallreduce,
  kIreduceScatter,
  kFinish,  ///< … and are waited for
  kMonitoredBarrier,
  kSplit,     ///< into a communicator of equal ranks, used once while requests are under way
  kOwnCalls,  ///< the program's own calls of MPI, with tags of communicators
};
[[nodiscard]] std::string_view name_of(Call call);

/// A call of one rank.
struct Action {
  Call call = Call::kBarrier;
  std::size_t group = 0;  ///< index into Program::groups
  int id = 0;             ///< number of the message or the collective call, equal on all its ranks
  int peer = 0;           ///< a rank of the group; the root of a collective call
  int tag = 0;            ///< of the call; a receive may take any tag
  DType dtype = DType::kUInt8;
  std::size_t count = 0;
  bool on_device = false;
  bool from_any = false;  ///< kRecv names no source; the message of `peer` matches
  bool in_place = false;  ///< gradients lie in one piece of memory
  ReduceOp op = ReduceOp::kSum;
};
[[nodiscard]] std::string describe(const Action& action);

/// How a program's communicators are made; results do not depend on it.
struct Conditions {
  bool has_timeout = false;           ///< a long one: calls wait by looks, with MPI's nonblocking collectives
  bool is_debug = false;              ///< ranks compare calls
  std::size_t count_limit = INT_MAX;  ///< elements of one MPI message
  std::string network;                ///< MN_NETWORK; empty: measured
  std::size_t shared_bytes = 0;       ///< limit of a segment of /dev/shm; 0: none
  int ranks_of_domain = 0;            ///< number of ranks in a NUMA domain; 0: as on the machine
};
[[nodiscard]] std::string describe(const Conditions& conditions);

struct Program {
  /// Communicators: two over all ranks, and the parts of the first by color, ordered by key.
  struct Group {
    std::vector<int> members;  ///< world ranks by rank of the group
  };
  Conditions conditions;
  std::vector<std::string> backends;  ///< of the first two groups
  std::vector<int> colors;            ///< [world ranks]; -1: in no part
  std::vector<int> keys;
  std::vector<Group> groups;
  std::vector<std::vector<Action>> actions;  ///< [world ranks], in the order of time

  [[nodiscard]] std::size_t calls() const;
};

/// Means of the ranks.
struct Machine {
  int ranks = 1;
  int nodes = 1;  ///< rank r is on node r % nodes
  bool gpus = false;
};
[[nodiscard]] Program random_program(std::uint64_t seed, const Machine& machine);

}  // namespace mn::testing
