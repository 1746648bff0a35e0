#include "tests/comm/programs/runner.hpp"

#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <mn/comm/communicator.hpp>

#include "tests/comm/count_limit.hpp"
#include "tests/comm/programs/collectives.hpp"
#include "tests/comm/programs/memory.hpp"
#include "tests/comm/programs/model.hpp"

namespace mn::testing {
namespace {

Device device_of(int world_rank, const Machine& machine) {
  if (!machine.gpus) return {};
  return {DeviceType::kCuda, world_rank % cuda_device_count()};
}

/// Sets the conditions that are not options, while a program runs.
class Surroundings {
 public:
  Surroundings(const Conditions& conditions, int world_rank, const Machine& machine) {
    setenv("MN_NODE_NAME", ("node" + std::to_string(world_rank % machine.nodes)).c_str(), 1);
    setenv("MN_NETWORK", conditions.network.c_str(), 1);
    if (conditions.ranks_of_domain > 0) {
      setenv("MN_NUMA_DOMAIN", std::to_string(world_rank / machine.nodes / conditions.ranks_of_domain).c_str(), 1);
    }
    getrlimit(RLIMIT_FSIZE, &room_);
    rlimit less = room_;
    if (conditions.shared_bytes > 0) less.rlim_cur = conditions.shared_bytes;
    setrlimit(RLIMIT_FSIZE, &less);
  }
  ~Surroundings() {
    setrlimit(RLIMIT_FSIZE, &room_);
    for (const char* name : {"MN_NODE_NAME", "MN_NETWORK", "MN_NUMA_DOMAIN"}) unsetenv(name);
  }
  Surroundings(const Surroundings&) = delete;
  Surroundings& operator=(const Surroundings&) = delete;

 private:
  rlimit room_{};
};

class Runner {
 public:
  Runner(const Program& program, int world_rank, const Machine& machine)
      : limit_(program.conditions.count_limit),
        surroundings_(program.conditions, world_rank, machine),
        memories_(device_of(world_rank, machine)) {
    CommunicatorOptions options;
    options.device = device_of(world_rank, machine);
    options.debug = program.conditions.is_debug;
    options.timeout = std::chrono::minutes(program.conditions.has_timeout ? 5 : 0);
    for (const std::string& backend : program.backends) {
      comms_.push_back(create_communicator(backend, MPI_COMM_WORLD, options));
    }
    const auto self = static_cast<std::size_t>(world_rank);
    const int color = program.colors[self];
    comms_.resize(program.groups.size());
    const auto part = comms_[0]->split(color, program.keys[self]);
    if (part) comms_[2 + static_cast<std::size_t>(color)] = part;
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
      case Call::kOwnCalls:
        return own_calls(action);
      default:
        CollectiveCall(action, *comm_, memories_).run();
    }
  }

  [[nodiscard]] const Memories& memories() const { return memories_; }

 private:
  struct Pending {
    Request request;
    Memory* memory = nullptr;
    std::optional<Values> expected;  // no value for a send
  };

  Memory& sent(const Action& action) { return memories_.keep(action, values_of(action, comm_->rank(), action.count)); }
  Memory& empty(const Action& action) { return memories_.keep(action, Values(action.count, kEmpty)); }

  void recv(const Action& action) {
    Memory& memory = empty(action);
    const int source = action.from_any ? Communicator::kAnySource : action.peer;
    EXPECT_EQ(comm_->recv(memory.view(), source, action.tag), action.peer);
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
    if (action.call == Call::kWaitLeaves) {
      pending.request = Request();
    } else {
      pending.request.wait();
    }
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

  /// Calls of MPI by other libraries: on their own communicators, and on MPI_COMM_WORLD.
  static void own_calls(const Action& action) {
    int rank = 0;
    int size = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const auto count = static_cast<int>(action.count);
    const std::vector<int> sent(action.count, rank);
    std::vector<int> got(action.count, -1);
    const int before = (rank + size - 1) % size;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(got.data(), count, MPI_INT, before, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
    MPI_Send(sent.data(), count, MPI_INT, (rank + 1) % size, action.tag, MPI_COMM_WORLD);
    int sum = rank;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    EXPECT_EQ(sum, size * (size - 1) / 2);
    EXPECT_EQ(got, std::vector<int>(action.count, before));
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

  CountLimit limit_;
  Surroundings surroundings_;
  Memories memories_;
  std::vector<std::shared_ptr<Communicator>> comms_;  // [groups]; null if the rank is in none
  Communicator* comm_ = nullptr;                      // of the current action
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
