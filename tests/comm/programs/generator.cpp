#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <mn/comm/communicator.hpp>

#include "tests/comm/programs/half_messages.hpp"
#include "tests/comm/programs/program_builder.hpp"

namespace mn::testing {
namespace {

constexpr int kSteps = 80;
constexpr std::size_t kMaxInBackground = 4;
constexpr Call kStarts[] = {Call::kIbcast, Call::kIallgather, Call::kIallreduce, Call::kIallreduce,
                            Call::kIreduceScatter};
constexpr int kFirstOwnTag = 1000;
constexpr int kAnyTag = Communicator::kAnyTag;
constexpr DType kFloats[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};
constexpr Call kCollectives[] = {
    Call::kBcast,           Call::kGather,      Call::kAllgather,       Call::kAlltoall,           Call::kScatter,
    Call::kAllreduce,       Call::kAllreduce,   Call::kAllreduce,       Call::kAllreduceAllocated, Call::kReduceScatter,
    Call::kBarrier,         Call::kBcastObject, Call::kGatherObject,    Call::kAllgatherObject,    Call::kScatterObject,
    Call::kAllreduceObject, Call::kGradients,   Call::kGradients,       Call::kGradients,          Call::kReduce,
    Call::kGatherv,         Call::kScatterv,    Call::kAllgatherv,      Call::kAlltoallv,          Call::kReduce,
    Call::kAlltoallv,       Call::kSplit,       Call::kMonitoredBarrier};

/// A request without a wait so far.
struct Open {
  int world_rank;
  int id;
};

class Generator : private ProgramBuilder {
 public:
  Generator(std::uint64_t seed, const Machine& machine) : ProgramBuilder(seed, machine) {}

  Program make() {
    for (int i = 0; i < kSteps; ++i) step();
    while (post_a_half()) {
    }
    while (wait_for_one()) {
    }
    while (go_on_in_background()) {
    }
    collective(0, Call::kBarrier);
    return std::move(program_);
  }

 private:
  void step() {
    const auto dice = below(17);
    if (chance(30)) return own_calls();
    if (dice < 4) return collective(any_group(), any_of(kCollectives));
    if (dice < 5) return exchange();
    if (dice < 6) return pass_object();
    if (dice < 11) return begin_message();
    if (dice < 13) {
      if (chance(4) && background_.size() < kMaxInBackground) begin_in_background();
      static_cast<void>(go_on_in_background());
      return;
    }
    if (dice < 15)
      post_a_half();
    else
      wait_for_one();
  }

  void collective(std::size_t group, Call call) {
    if (members(group).empty()) return;
    if (group == 0) start_all();
    Action action = new_action(call, group);
    if (!background_.empty()) action.on_device = false;  // NCCL's calls have a single order, and some are under way
    action.peer = rank_of(group);
    action.op = any_op(action.dtype);
    action.in_place = chance(2);
    if (call == Call::kGradients) action.dtype = chance(3) ? DType::kFloat16 : any_of(kFloats);
    for (std::size_t r = 0; r < members(group).size(); ++r) {
      add(group, static_cast<int>(r), action);
      // Each rank decides alone, unless calls are compared.
      if (call != Call::kGradients && !program_.conditions.is_debug) action.in_place = chance(2);
    }
  }

  /// Averages are of floats.
  ReduceOp any_op(DType dtype) {
    return static_cast<ReduceOp>(below(std::ranges::find(kFloats, dtype) == std::end(kFloats) ? 4 : 5));
  }

  /// On all ranks at one time, hence on the ranks of the first group.
  void own_calls() {
    Action action = new_action(Call::kOwnCalls, 0);
    action.tag = any_tag();
    for (const int rank : members(0)) add(rank, action);
  }

  // A message matches a receive with equal source and destination, and an equal tag or any tag.

  int any_tag() {
    constexpr int kTags[] = {0, 1, 2, Communicator::kMaxTag};
    return any_of(kTags);
  }

  /// A message between two ranks of a group; none if the group has one rank.
  std::optional<Message> new_message(Call call) {
    Message message;
    const std::size_t group = any_group();
    if (members(group).size() < 2) return {};
    message.action = new_action(call, group);
    message.source = rank_of(group);
    do {
      message.action.peer = rank_of(group);
    } while (message.action.peer == message.source);
    message.action.tag = any_tag();
    message.filter = chance(3) ? kAnyTag : message.action.tag;
    return message;
  }

  void post_send(Message& message, bool blocks) {
    message.is_sent = true;
    Action action = message.action;
    action.call = blocks ? Call::kSend : Call::kIsend;
    if (machine_.gpus) action.on_device = chance(2);
    add(action.group, message.source, action);
    if (!blocks) open(action.group, message.source, action.id);
  }

  void post_receive(Message& message, bool blocks) {
    message.is_received = true;
    Action action = message.action;
    action.call = blocks ? Call::kRecv : Call::kIrecv;
    action.tag = message.filter;
    action.from_any = blocks && message.from_any;
    const int dest = std::exchange(action.peer, message.source);
    add(action.group, dest, action);
    if (!blocks) open(action.group, dest, action.id);
  }

  void open(std::size_t group, int rank, int id) {
    open_.push_back({members(group)[static_cast<std::size_t>(rank)], id});
  }

  void begin_message() {
    auto message = new_message(Call::kSend);
    if (!message) return;
    if (chance(4)) {
      message->from_any = true;
      message->filter = message->action.tag = kFirstOwnTag + message->action.id;  // a unique tag
    }
    const bool sends = halves_.receive_for(message->action, message->source, message->action.tag) == nullptr;
    const bool receives = halves_.message_for(message->action, message->source, message->filter) == nullptr;
    const auto halves = below(3);
    if ((halves != 0 && !sends) || (halves != 1 && !receives)) return;
    const bool at_once = halves == 2;
    if (halves != 0) post_send(*message, at_once && chance(2));
    if (halves != 1) post_receive(*message, at_once && chance(2));
    if (at_once)
      complete_.insert(message->action.id);
    else
      halves_.add(*message);
  }

  /// `tag`: of the send, if the send is missing.
  void finish_half(Message& half, int tag) {
    if (half.is_sent) {
      post_receive(half, chance(2));
    } else {
      half.action.tag = tag;
      post_send(half, chance(2));
    }
    complete_.insert(half.action.id);
    halves_.forget_whole();
  }

  /// Posts the other half of a message; false if there is none.
  bool post_a_half() {
    if (halves_.all().empty()) return false;
    const Message picked = any_of(halves_.all());
    if (picked.is_sent) {
      const int filter = chance(3) ? kAnyTag : picked.action.tag;
      Message& first = *halves_.message_for(picked.action, picked.source, filter);
      first.filter = filter;
      if (filter == kAnyTag) first.from_any = false;  // other messages match any tag
      finish_half(first, 0);
    } else {
      const int tag = picked.filter == kAnyTag ? any_tag() : picked.filter;
      finish_half(*halves_.receive_for(picked.action, picked.source, tag), tag);
    }
    return true;
  }

  /// Waits for a request whose message is posted on both sides; false if there is none.
  bool wait_for_one() {
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < open_.size(); ++i) {
      if (complete_.contains(open_[i].id)) ready.push_back(i);
    }
    if (ready.empty()) return false;
    const auto picked = open_.begin() + static_cast<std::ptrdiff_t>(any_of(ready));
    constexpr Call kWaits[] = {Call::kWait, Call::kWait, Call::kWaitPolls, Call::kWaitLeaves};
    Action action;
    action.call = any_of(kWaits);
    action.id = picked->id;
    add(picked->world_rank, action);
    open_.erase(picked);
    return true;
  }

  /// sendrecv on all ranks of a group.
  void exchange() {
    auto message = new_message(Call::kSendrecv);
    if (!message) return;
    Action action = message->action;
    const auto size = static_cast<int>(members(action.group).size());
    const int distance = 1 + static_cast<int>(below(members(action.group).size() - 1));
    for (int source = 0; source < size; ++source) {
      action.peer = (source + distance) % size;
      if (halves_.receive_for(action, source, action.tag) != nullptr) return;
      if (halves_.message_for(action, source, action.tag) != nullptr) return;
    }
    action.peer = distance;
    for (int rank = 0; rank < size; ++rank) add(action.group, rank, action);
  }

  void pass_object() {
    const auto message = new_message(Call::kSendObject);
    if (!message || halves_.receive_for(message->action, message->source, message->action.tag) != nullptr) return;
    if (halves_.message_for(message->action, message->source, message->filter) != nullptr) return;
    Action action = message->action;
    add(action.group, message->source, action);
    const int dest = std::exchange(action.peer, message->source);
    action.call = Call::kRecvObject;
    action.tag = message->filter;
    add(action.group, dest, action);
  }

  // Nonblocking collective calls of the first group. Each rank starts the calls at times of its own, in the group's
  // order of collective calls, and waits in any order.

  struct Background {
    Action action;
    std::set<int> to_start;  // ranks
    std::set<int> to_finish;
  };

  void begin_in_background() {
    Action action = new_action(any_of(kStarts), 0);
    action.peer = rank_of(0);
    action.op = any_op(action.dtype);
    const std::set<int> ranks(members(0).begin(), members(0).end());
    background_.push_back({action, ranks, ranks});
  }

  void start(Background& call, int rank) {
    add(rank, call.action);
    call.to_start.erase(rank);
  }

  void start_all() {
    for (Background& call : background_) {
      while (!call.to_start.empty()) start(call, *call.to_start.begin());
    }
  }

  /// A rank starts its next call, or waits for a call that all have started; false if there is none.
  bool go_on_in_background() {
    if (background_.empty()) return false;
    const int rank = rank_of(0);
    for (Background& call : background_) {
      if (!call.to_start.contains(rank)) continue;
      start(call, rank);
      return true;
    }
    Background& call = any_of(background_);
    if (!call.to_start.empty() || !call.to_finish.contains(rank)) return true;
    Action action = call.action;
    action.call = Call::kFinish;
    add(rank, action);
    call.to_finish.erase(rank);
    std::erase_if(background_, [](const Background& each) { return each.to_finish.empty(); });
    return true;
  }

  HalfMessages halves_;
  std::set<int> complete_;  // messages with both halves posted
  std::vector<Open> open_;
  std::vector<Background> background_;  // in the order of their starts
};

}  // namespace

Program random_program(std::uint64_t seed, const Machine& machine) { return Generator(seed, machine).make(); }

}  // namespace mn::testing
