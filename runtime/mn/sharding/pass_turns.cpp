#include <mn/sharding/pass_turns.hpp>

#include <span>
#include <utility>

#include <mn/comm/calls/forbidden_calls.hpp>

namespace mn {

namespace {

std::vector<PassTurns*>& all_turns() {
  static std::vector<PassTurns*> all;  // in the order of construction, equal on all ranks
  return all;
}

}  // namespace

std::shared_ptr<PassTurns> PassTurns::of(Communicator& comm) {
  for (PassTurns* const turns : all_turns()) {
    if (&turns->comm_ == &comm) return turns->shared_from_this();
  }
  return std::make_shared<PassTurns>(comm);
}

PassTurns::PassTurns(Communicator& comm) : comm_(comm) { all_turns().push_back(this); }

PassTurns::~PassTurns() { std::erase(all_turns(), this); }

void PassTurns::join_all() {
  for (PassTurns* const turns : all_turns()) turns->join();
}

std::size_t PassTurns::add(Call make) {
  models_.push_back(std::move(make));
  return models_.size() - 1;
}

void PassTurns::make_calls(std::int64_t own) {
  const CallsOfAllRanks allowed;
  for (;;) {
    std::int64_t next = own;
    comm_.allreduce(std::span(&next, 1), ReduceOp::kMax);
    if (next != 0) models_[static_cast<std::size_t>((next - 1) / kCalls)]((next - 1) % kCalls, next == own);
    if (next == own) return;
  }
}

}  // namespace mn
