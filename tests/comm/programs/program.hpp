/// Random programs: calls of communicators in an order that MPI's rules allow, for 1 rank or more.
///
/// All ranks make the same program from its seed, and each runs its own part.
///
/// Invariants:
/// 1. Calls have a time. A call that blocks comes at the time of, or after, whatever it waits for: a send after its
///    receive is posted or together with it, a receive likewise, a wait after both halves of its message are posted, a
///    collective call at one time on all ranks. So ranks that run their parts in the order of time never wait for each
///    other in a circle, if a message that is posted on both sides moves on while either rank waits for something else.
/// 2. A receive takes the first message from its source that was sent and not received, with its tag or, for a receive
///    of any tag, with whatever tag. The program knows which that is. One from any rank has a tag of its own.
/// 3. What a rank sends follows from the call's number, its rank and the index, as does what each rank must end with.
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
  kWaitPolls,   ///< the same with is_done() first
  kWaitLeaves,  ///< the request goes out of scope
  kSendrecv,    ///< to the rank `peer` further, from the one as far before
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
  kSplit,     ///< into a communicator of the same ranks, which is used once; requests stay under way
  kOwnCalls,  ///< the program's own calls of MPI, with tags that communicators use too
};
[[nodiscard]] std::string_view name_of(Call call);

/// A call of one rank.
struct Action {
  Call call = Call::kBarrier;
  std::size_t group = 0;  ///< index into Program::groups
  int id = 0;             ///< number of the message or the collective call, the same on all its ranks
  int peer = 0;           ///< a rank of the group; the root of a collective call
  int tag = 0;            ///< as the call takes it: a receive may take any
  DType dtype = DType::kUInt8;
  std::size_t count = 0;
  bool on_device = false;
  bool from_any = false;  ///< kRecv names no source; the message of `peer` matches
  bool in_place = false;  ///< gradients lie in one piece of memory
  ReduceOp op = ReduceOp::kSum;
};
[[nodiscard]] std::string describe(const Action& action);

/// How a program's communicators are made: none of it changes what their calls compute.
struct Conditions {
  bool has_timeout = false;           ///< a long one: calls wait by looks, with MPI's non-blocking collectives
  bool is_debug = false;              ///< calls are compared
  std::size_t count_limit = INT_MAX;  ///< elements of one MPI message
  std::string network;                ///< MN_NETWORK; empty: measured
  std::size_t shared_bytes = 0;       ///< what a segment of /dev/shm may reach to; 0: without limit
  int ranks_of_domain = 0;            ///< so many ranks are in one NUMA domain; 0: as the machine says
};
[[nodiscard]] std::string describe(const Conditions& conditions);

struct Program {
  /// Communicators: two over all ranks, and the parts of the first by color, ordered by key.
  struct Group {
    std::vector<int> members;  ///< world ranks by rank of the group
  };
  Conditions conditions;
  std::vector<std::string> backends;  ///< the first two groups'
  std::vector<int> colors;            ///< [world ranks]; -1: in no part
  std::vector<int> keys;
  std::vector<Group> groups;
  std::vector<std::vector<Action>> actions;  ///< [world ranks], in the order of time

  [[nodiscard]] std::size_t calls() const;
};

/// What the ranks have.
struct Machine {
  int ranks = 1;
  int nodes = 1;  ///< rank r is on node r % nodes
  bool gpus = false;
};
[[nodiscard]] Program random_program(std::uint64_t seed, const Machine& machine);

}  // namespace mn::testing
