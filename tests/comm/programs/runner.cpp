#include "tests/comm/programs/runner.hpp"

#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include <mn/comm/communication_thread.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/comm/device_collectives.hpp>

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
    if (comms_[0]->device_collectives() == nullptr) thread_.emplace(*comms_[0]);
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
        return wait(action);
      case Call::kSendrecv:
        return sendrecv(action);
      case Call::kSendObject:
        return comm_->send_obj(object_of(action, comm_->rank()), action.peer, action.tag);
      case Call::kRecvObject:
        EXPECT_EQ(comm_->recv_obj(action.peer, action.tag), object_of(action, action.peer));
        return;
      case Call::kStart:
        return start(action);
      case Call::kFinish:
        return finish(action);
      default:
        CollectiveCall(action, *comm_, memories_).run();
    }
  }

  [[nodiscard]] const Memories& memories() const { return memories_; }

 private:
  struct Pending {
    Request request;
    Memory* memory = nullptr;
    std::optional<Values> expected;  // of a receive
  };

  Memory& sent(const Action& action) { return memories_.keep(action, values_of(action, comm_->rank(), action.count)); }
  Memory& empty(const Action& action) { return memories_.keep(action, Values(action.count, kEmpty)); }

  void recv(const Action& action) {
    Memory& memory = empty(action);
    comm_->recv(memory.view(), action.peer, action.tag);
    memory.expect(values_of(action, action.peer, action.count));
  }

  void isend(const Action& action) {
    Memory& memory = sent(action);
    pending_[action.id] = {comm_->isend(memory.view(), action.peer, action.tag), &memory, {}};
  }

  void irecv(const Action& action) {
    Memory& memory = empty(action);
    pending_[action.id] = {comm_->irecv(memory.view(), action.peer, action.tag), &memory,
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

  void start(Action action) {
    action.on_device = !thread_;
    Memory& memory = sent(action);
    background_ = &memory;
    if (thread_) return thread_->submit([view = memory.view()](Communicator& comm) { comm.allreduce(view); });
    comm_->device_collectives()->after(nullptr);
    comm_->device_collectives()->allreduce(memory.view(), ReduceOp::kSum);
  }

  void finish(const Action& action) {
    if (thread_)
      thread_->wait();
    else
      comm_->device_collectives()->wait();
    background_->expect(sums_of(action, comm_->size()));
  }

  Memories memories_;
  std::vector<std::shared_ptr<Communicator>> comms_;  // [groups]; null where this rank is in none
  Communicator* comm_ = nullptr;                      // of the action that runs
  std::map<int, Pending> pending_;                    // by the message's number
  std::optional<CommunicationThread> thread_;
  Memory* background_ = nullptr;
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
