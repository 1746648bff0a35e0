#include "tests/comm/programs/runner.hpp"

#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include <mn/comm/communicator.hpp>

#include "tests/comm/programs/collectives.hpp"
#include "tests/comm/programs/memory.hpp"
#include "tests/comm/programs/model.hpp"

namespace mn::testing {
namespace {

Device device_of(int world_rank, const Machine& machine) {
  if (!machine.gpus) return {};
  return {DeviceType::kCuda, world_rank % cuda_device_count()};
}

class Runner {
 public:
  Runner(const Program& program, int world_rank, const Machine& machine) : memories_(device_of(world_rank, machine)) {
    setenv("MN_NODE_NAME", ("node" + std::to_string(world_rank % machine.nodes)).c_str(), 1);
    CommunicatorOptions options;
    options.device = device_of(world_rank, machine);
    for (const std::string& backend : program.backends) {
      comms_.push_back(create_communicator(backend, MPI_COMM_WORLD, options));
    }
    const auto self = static_cast<std::size_t>(world_rank);
    const int color = program.colors[self];
    comms_.resize(program.groups.size());
    const auto part = comms_[0]->split(color, program.keys[self]);
    if (part) comms_[2 + static_cast<std::size_t>(color)] = part;
    unsetenv("MN_NODE_NAME");
  }

  void run(const Action& action) {
    comm_ = comms_[action.group].get();
    switch (action.call) {
      case Call::kSend:
        return comm_->send(sent(action).view(), action.peer, action.tag);
      case Call::kIsend:
        return isend(action);
      case Call::kRecv:
        return recv(action);
      case Call::kIrecv:
        return irecv(action);
      case Call::kWait:
      case Call::kWaitPolls:
      case Call::kWaitLeaves:
      case Call::kFinish:
        return wait(action);
      case Call::kSendrecv:
        return sendrecv(action);
      case Call::kSendObject:
        return comm_->send_obj(object_of(action, comm_->rank()), action.peer, action.tag);
      case Call::kRecvObject:
        EXPECT_EQ(comm_->recv_obj(action.peer, action.tag), object_of(action, action.peer));
        return;
      case Call::kIbcast:
      case Call::kIallgather:
      case Call::kIallreduce:
      case Call::kIreduceScatter:
        return start(action);
      default:
        CollectiveCall(action, *comm_, memories_).run();
    }
  }

  [[nodiscard]] const Memories& memories() const { return memories_; }

 private:
  struct Pending {
    Request request;
    Memory* memory = nullptr;
    std::optional<Values> expected;  // unless it sends
  };

  Memory& sent(const Action& action) { return memories_.keep(action, values_of(action, comm_->rank(), action.count)); }
  Memory& empty(const Action& action) { return memories_.keep(action, Values(action.count, kEmpty)); }

  [[nodiscard]] static int source_of(const Action& action) {
    return action.from_any ? Communicator::kAnySource : action.peer;
  }

  void recv(const Action& action) {
    Memory& memory = empty(action);
    EXPECT_EQ(comm_->recv(memory.view(), source_of(action), action.tag), action.peer);
    memory.expect(values_of(action, action.peer, action.count));
  }

  void isend(const Action& action) {
    Memory& memory = sent(action);
    pending_[action.id] = {comm_->isend(memory.view(), action.peer, action.tag), &memory, {}};
  }

  void irecv(const Action& action) {
    Memory& memory = empty(action);
    pending_[action.id] = {comm_->irecv(memory.view(), source_of(action), action.tag), &memory,
                           values_of(action, action.peer, action.count)};
  }

  void wait(const Action& action) {
    auto found = pending_.extract(action.id);
    Pending& pending = found.mapped();
    while (action.call == Call::kWaitPolls && !pending.request.is_done()) std::this_thread::yield();
    if (action.call == Call::kWaitLeaves)
      pending.request = Request();
    else
      pending.request.wait();
    EXPECT_TRUE(!action.from_any || pending.request.source() == action.peer);
    if (pending.expected) pending.memory->expect(*pending.expected);
    pending.memory->retire();
  }

  void sendrecv(const Action& action) {
    const int size = comm_->size();
    const int dest = (comm_->rank() + action.peer) % size;
    const int source = (comm_->rank() + size - action.peer) % size;
    Memory& memory = empty(action);
    comm_->sendrecv(sent(action).view(), dest, memory.view(), source, action.tag);
    memory.expect(values_of(action, source, action.count));
  }

  void start(const Action& action) {
    const int rank = comm_->rank();
    const int size = comm_->size();
    const auto self = static_cast<std::size_t>(rank);
    const std::size_t part = action.count / static_cast<std::size_t>(size);
    const std::size_t whole = part * static_cast<std::size_t>(size);
    switch (action.call) {
      case Call::kIbcast: {
        const Values root = values_of(action, action.peer, action.count);
        Memory& memory = memories_.keep(action, rank == action.peer ? root : Values(action.count, kEmpty));
        pending_[action.id] = {comm_->ibcast(memory.view(), action.peer), &memory, root};
        return;
      }
      case Call::kIallgather: {
        Memory& send = memories_.keep(action, values_of(action, rank, part));
        Memory& recv = memories_.keep(action, Values(whole, kEmpty));
        pending_[action.id] = {comm_->iallgather(send.view(), recv.view()), &recv, values_of_all(action, size, part)};
        return;
      }
      case Call::kIreduceScatter: {
        Memory& send = memories_.keep(action, reduction_inputs(action, rank, size, whole));
        Memory& recv = memories_.keep(action, Values(part, kEmpty));
        pending_[action.id] = {comm_->ireduce_scatter(send.view(), recv.view(), action.op), &recv,
                               reduced(action, size, self * part, part)};
        return;
      }
      default: {
        Memory& memory = memories_.keep(action, reduction_inputs(action, rank, size, action.count));
        pending_[action.id] = {comm_->iallreduce(memory.view(), action.op), &memory,
                               reduced(action, size, 0, action.count)};
      }
    }
  }

  Memories memories_;
  std::vector<std::shared_ptr<Communicator>> comms_;  // [groups]; null where this rank is in none
  Communicator* comm_ = nullptr;                      // the one that the current action names
  std::map<int, Pending> pending_;                    // by the number of the message or call
};

}  // namespace

void run_program(const Program& program, int world_rank, const Machine& machine,
                 const std::function<void(const Action&)>& report) {
  Runner runner(program, world_rank, machine);
  for (const Action& action : program.actions[static_cast<std::size_t>(world_rank)]) {
    report(action);
    SCOPED_TRACE(describe(action));
    runner.run(action);
  }
  runner.memories().expect_untouched();
}

}  // namespace mn::testing
