#include "tests/comm/programs/runner.hpp"

#include <map>
#include <memory>
#include <numeric>
#include <thread>

#include <gtest/gtest.h>

#include <mn/comm/communication_thread.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/comm/device_collectives.hpp>
#include <mn/core/json.hpp>

#include "tests/comm/programs/memory.hpp"

namespace mn::testing {
namespace {

using Values = std::vector<int>;
using nlohmann::json;

/// Element `i` of what `rank` sends in call `id`: 0 to 6.
int value(int id, int rank, std::size_t i) {
  return static_cast<int>((i * 3 + static_cast<std::size_t>(rank) * 5 + static_cast<std::size_t>(id) * 11) % 7);
}

Values values_of(int id, int rank, std::size_t count, std::size_t first = 0) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value(id, rank, first + i);
  return values;
}

std::string object_of(int id, int rank) {
  return std::string(static_cast<std::size_t>(id * 37 + rank) % 5000, static_cast<char>('a' + rank)) +
         std::to_string(id);
}

/// Element `i` of what `rank` of `size` gives to a reduction. Products are of 1 and 2, which stay exact in every dtype;
/// among floats one rank has some NaNs.
int reduction_input(const Action& action, int rank, int size, std::size_t i) {
  const bool is_float = action.dtype >= DType::kFloat16 && action.dtype <= DType::kFloat64;
  if (is_float && i % 89 == 3 && action.id % size == rank) return kNaN;
  const int plain = value(action.id, rank, i);
  return action.op == ReduceOp::kProd ? 1 + plain % 2 : plain;
}

int combined(ReduceOp op, int a, int b) {
  if (a == kNaN || b == kNaN) return kNaN;
  switch (op) {
    case ReduceOp::kSum:
      return a + b;
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
  }
  return kNaN;
}

/// The model: the reduction over ranks of `count` elements from `first` on.
Values reduced(const Action& action, int size, std::size_t first, std::size_t count) {
  Values result(count);
  for (std::size_t i = 0; i < count; ++i) {
    result[i] = reduction_input(action, 0, size, first + i);
    for (int r = 1; r < size; ++r) {
      result[i] = combined(action.op, result[i], reduction_input(action, r, size, first + i));
    }
  }
  return result;
}

class Runner {
 public:
  Runner(const Program& program, int world_rank, const Machine& machine) {
    setenv("MN_NODE_NAME", ("node" + std::to_string(world_rank % machine.nodes)).c_str(), 1);
    CommunicatorOptions options;
    if (machine.gpus)
      options.device = Device{DeviceType::kCuda, world_rank % cuda_device_count()};
    else
      options.device = Device();
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
      case Call::kIsend: {
        Memory& memory = sent(action);
        requests_[action.id] = {comm_->isend(memory.view(), action.peer, action.tag), &memory, {}};
        return;
      }
      case Call::kRecv: {
        Memory& memory = empty(action, action.count);
        comm_->recv(memory.view(), action.peer, action.tag);
        return expect(memory, values_of(action.id, action.peer, action.count));
      }
      case Call::kIrecv: {
        Memory& memory = empty(action, action.count);
        requests_[action.id] = {comm_->irecv(memory.view(), action.peer, action.tag), &memory,
                                values_of(action.id, action.peer, action.count)};
        return;
      }
      case Call::kWait:
      case Call::kWaitPolls:
      case Call::kWaitLeaves:
        return wait(action);
      case Call::kSendrecv:
        return sendrecv(action);
      case Call::kStart:
        return start(action);
      case Call::kFinish:
        return finish(action);
      default:
        return action.call >= Call::kBcastObject || action.call < Call::kBcast ? object_call(action)
                                                                                : collective(action);
    }
  }

  /// After the last action, with all buffers alive.
  void expect_nothing_was_written_late() const {
    for (const auto& each : memories_) EXPECT_TRUE(each->is_untouched()) << "a buffer was written to after its call";
  }

 private:
  struct Pending {
    Request request;
    Memory* memory = nullptr;
    Values expected;
  };

  [[nodiscard]] int rank() const { return comm_->rank(); }
  [[nodiscard]] int size() const { return comm_->size(); }

  /// Buffers live to the end: a write to one that is done with shows, and nothing is freed while a GPU is at work.
  Memory& keep(const Action& action, const Values& values) {
    const Device device = action.on_device ? comms_[0]->device() : Device();
    return *memories_.emplace_back(std::make_unique<Memory>(action.dtype, values, device));
  }
  Memory& empty(const Action& action, std::size_t count) { return keep(action, Values(count, 77)); }
  Memory& sent(const Action& action) { return keep(action, values_of(action.id, rank(), action.count)); }
  static void expect(Memory& memory, const Values& values) {
    EXPECT_TRUE(memory.holds(values)) << "wrong values, or something beside them was written to";
  }

  void wait(const Action& action) {
    auto found = requests_.extract(action.id);
    Pending& pending = found.mapped();
    while (action.call == Call::kWaitPolls && !pending.request.is_done()) std::this_thread::yield();
    if (action.call == Call::kWaitLeaves)
      pending.request = Request();
    else
      pending.request.wait();
    if (!pending.expected.empty()) expect(*pending.memory, pending.expected);
    pending.memory->retire();
  }

  void sendrecv(const Action& action) {
    const int source = (rank() + size() - action.peer) % size();
    Memory& memory = empty(action, action.count);
    comm_->sendrecv(sent(action).view(), (rank() + action.peer) % size(), memory.view(), source, action.tag);
    expect(memory, values_of(action.id, source, action.count));
  }

  /// What every rank sends, by rank.
  [[nodiscard]] Values all_of(const Action& action, std::size_t count, std::size_t first = 0) const {
    Values all;
    for (int r = 0; r < size(); ++r) {
      const Values theirs = values_of(action.id, r, count, first);
      all.insert(all.end(), theirs.begin(), theirs.end());
    }
    return all;
  }

  /// Over ranks, of what each sends.
  [[nodiscard]] Values sums_of(const Action& action) const {
    Values sums(action.count, 0);
    for (int r = 0; r < size(); ++r) {
      for (std::size_t i = 0; i < action.count; ++i) sums[i] += value(action.id, r, i);
    }
    return sums;
  }

  void collective(const Action& action) {
    const auto ranks = static_cast<std::size_t>(size());
    const auto self = static_cast<std::size_t>(rank());
    const bool is_root = rank() == action.peer;
    const std::size_t n = action.call == Call::kAllreduce || action.call == Call::kAllreduceAllocated ||
                                  action.call == Call::kGradients || action.call == Call::kBcast
                              ? action.count
                              : action.count / ranks;  // of a part
    switch (action.call) {
      case Call::kBarrier:
        return comm_->barrier();
      case Call::kBcast: {
        Memory& memory = is_root ? sent(action) : empty(action, n);
        comm_->bcast(memory.view(), action.peer);
        return expect(memory, values_of(action.id, action.peer, n));
      }
      case Call::kGather:
      case Call::kAllgather: {
        const bool receives = action.call == Call::kAllgather || is_root;
        Values whole(receives ? ranks * n : 0, 77);
        const Values own = values_of(action.id, rank(), n);
        const bool in_place = action.in_place && receives;
        if (in_place) std::copy(own.begin(), own.end(), whole.begin() + static_cast<std::ptrdiff_t>(self * n));
        Memory& recv = keep(action, whole);
        const BufferView send = in_place ? recv.view().slice(self * n, n) : keep(action, own).view();
        if (action.call == Call::kAllgather)
          comm_->allgather(send, recv.view());
        else
          comm_->gather(send, recv.view(), action.peer);
        return expect(recv, receives ? all_of(action, n) : Values());
      }
      case Call::kAlltoall: {
        Memory& send = keep(action, values_of(action.id, rank(), ranks * n));
        Memory& recv = action.in_place ? send : empty(action, ranks * n);
        comm_->alltoall(send.view(), recv.view());
        return expect(recv, all_of(action, n, self * n));
      }
      case Call::kScatter: {
        Memory& send = keep(action, is_root ? values_of(action.id, rank(), ranks * n) : Values());
        if (action.in_place && is_root) {
          comm_->scatter(send.view(), send.view().slice(self * n, n), action.peer);
          return expect(send, values_of(action.id, rank(), ranks * n));
        }
        Memory& recv = empty(action, n);
        comm_->scatter(send.view(), recv.view(), action.peer);
        return expect(recv, values_of(action.id, action.peer, n, self * n));
      }
      case Call::kReduceScatter: {
        Memory& send = keep(action, inputs(action, ranks * n));
        Memory& recv = empty(action, n);
        comm_->reduce_scatter(send.view(), recv.view(), action.op);
        return expect(recv, reduced(action, size(), self * n, n));
      }
      case Call::kAllreduce: {
        Memory& memory = keep(action, inputs(action, n));
        comm_->allreduce(memory.view(), action.op);
        return expect(memory, reduced(action, size(), 0, n));
      }
      case Call::kAllreduceAllocated:
        return allreduce_allocated(action);
      default:
        return gradients(action);
    }
  }

  [[nodiscard]] Values inputs(const Action& action, std::size_t count) const {
    Values values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = reduction_input(action, rank(), size(), i);
    return values;
  }

  void allreduce_allocated(Action action) {
    action.on_device = false;
    const std::vector<std::byte> mine = encoded(action.dtype, inputs(action, action.count));
    const auto memory = comm_->allocate(mine.size());
    std::copy(mine.begin(), mine.end(), memory.get());
    comm_->allreduce(BufferView(memory.get(), action.count, action.dtype), action.op);
    Memory& copy = empty(action, action.count);
    std::copy(memory.get(), memory.get() + mine.size(), static_cast<std::byte*>(copy.view().data));
    expect(copy, reduced(action, size(), 0, action.count));
    // Memory of a GPU's host is freed in the end: that waits for the device.
    allocated_.push_back(memory);
  }

  /// Gradients of two parameters. Of float16 sometimes those whose mean is finite and whose sum is not.
  void gradients(const Action& action) {
    const bool is_large = action.dtype == DType::kFloat16 && action.id % 2 == 0;
    constexpr int kLarge = 32768;
    Values own = values_of(action.id, rank(), action.count);
    Values expected = sums_of(action);
    for (std::size_t i = 0; i < action.count; ++i) {
      own[i] *= 2;
      if (is_large) own[i] = expected[i] = kLarge;
    }
    Memory& memory = keep(action, own);
    const std::size_t half = action.count / 2;
    std::vector<BufferView> views = {memory.view().slice(0, half), memory.view().slice(half, action.count - half)};
    if (!action.in_place) std::swap(views[0], views[1]);
    comm_->allreduce_grad(views, is_large ? 1.0 / size() : 0.5);
    expect(memory, expected);
  }

  void object_call(const Action& action) {
    const std::string own = object_of(action.id, rank());
    std::vector<std::string> all;
    for (int r = 0; r < size(); ++r) all.push_back(object_of(action.id, r));
    const bool is_root = rank() == action.peer;
    switch (action.call) {
      case Call::kSendObject:
        return comm_->send_obj(own, action.peer, action.tag);
      case Call::kRecvObject:
        EXPECT_EQ(comm_->recv_obj(action.peer, action.tag), object_of(action.id, action.peer));
        return;
      case Call::kBcastObject:
        EXPECT_EQ(comm_->bcast_obj(own, action.peer), object_of(action.id, action.peer));
        return;
      case Call::kGatherObject:
        EXPECT_EQ(comm_->gather_obj(own, action.peer), is_root ? all : std::vector<std::string>());
        return;
      case Call::kAllgatherObject:
        EXPECT_EQ(comm_->allgather_obj(own), all);
        return;
      case Call::kScatterObject:
        EXPECT_EQ(comm_->scatter_obj(is_root ? all : std::vector<std::string>(), action.peer), own);
        return;
      default:
        EXPECT_EQ(comm_->allreduce_obj(json{{"rank", rank()}, {"one", 1}}),
                  (json{{"rank", size() * (size() - 1) / 2}, {"one", size()}}));
    }
  }

  void start(Action action) {
    action.on_device = !thread_;
    Memory& memory = sent(action);
    background_ = &memory;
    if (thread_) {
      thread_->submit([view = memory.view()](Communicator& comm) { comm.allreduce(view); });
    } else {
      comm_->device_collectives()->after(nullptr);
      comm_->device_collectives()->allreduce(memory.view(), ReduceOp::kSum);
    }
  }

  void finish(const Action& action) {
    if (thread_)
      thread_->wait();
    else
      comm_->device_collectives()->wait();
    expect(*background_, sums_of(action));
  }

  std::vector<std::shared_ptr<Communicator>> comms_;  // [groups]; null where this rank is in none
  Communicator* comm_ = nullptr;                      // of the action that runs
  std::vector<std::unique_ptr<Memory>> memories_;
  std::vector<std::shared_ptr<std::byte>> allocated_;
  std::map<int, Pending> requests_;  // by the message's number
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
  runner.expect_nothing_was_written_late();
}

}  // namespace mn::testing
