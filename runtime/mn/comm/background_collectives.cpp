// The communicator's nonblocking collective calls, and Communicator::abort(), which ends them.
//
// Invariants:
// 1. On each rank a background thread makes the calls that need the host, in the order in which they were started, on a
//    second communicator with the same ranks and backend. Every result is bit by bit the result of the blocking call.
// 2. On a device, blocking and nonblocking calls are enqueued on a single stream, so NCCL gets the calls in program
//    order.
// 3. When a call starts on a device, its position on the stream is marked (DeviceMark). Therefore wait() does not wait
//    for later calls.
// 4. After an error of one call, some ranks may have made more calls than others. Therefore the thread makes no later
//    call, and the wait() of each later call throws the error. An error that debug mode finds is different: every rank
//    throws it, so the thread still makes the later calls.
// 5. A rank that starts a call waits for no other rank: the thread makes its communicator during the first call, and
//    this call's time-out also limits the wait for the other ranks' threads. The MPI communicators that the thread
//    needs are made earlier, together with the program's communicator. Otherwise ranks could deadlock, because Open MPI
//    makes one communicator at a time in a process: the program may be making another communicator, whose ranks wait
//    until this rank starts the first call.
// 6. If a rank gives up the program's communicator, every wait() for a call with a time-out ends, and the thread's
//    communicator is given up, too. While the thread's communicator is being made, it cannot be given up, and only the
//    call's time-out ends the wait.
// 7. If a nonblocking call gives up, the program's communicator is given up, too: ranks may now make different calls.
//
// Cost of a call: two thread switches if the background thread makes the call, or one mark on the stream on a device.
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include <mn/comm/calls/call_check.hpp>
#include <mn/comm/calls/flight_recorder.hpp>
#include <mn/comm/calls/recorded_collectives.hpp>
#include <mn/comm/collective_checks.hpp>
#include <mn/comm/communication_thread.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/comm/messages/request.hpp>
#include <mn/comm/on_device.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

constexpr auto kBetweenAsks = std::chrono::milliseconds(1);

void require_in_use(const CallTimeouts& program) {
  if (program.failed()) throw CommError("a call in the background ends: " + program.failure());
}

/// Invariant 7: gives up the program's communicator after a call in the background has given up for the reason `why`.
void give_up(CallTimeouts& program, int rank, const CommError& why) {
  if (program.failed()) return;
  program.abort("rank " + std::to_string(rank) + " has given up a call in the background: " + why.what());
}

void make_call(CallTimeouts& program, Communicator& comm, const std::function<void(Communicator&)>& call) {
  try {
    call(comm);
  } catch (const CommError& error) {
    if (comm.has_given_up()) give_up(program, comm.rank(), error);
    throw;
  }
}

/// Waits for the background threads of all ranks. Throws CommError after the time-out, or if a rank gives up `program`.
void meet_other_threads(CallTimeouts& timeouts, const CallName& call, const CallTimeouts& program, MPI_Comm comm) {
  TimedCall first(timeouts, call);
  MPI_Request request = MPI_REQUEST_NULL;
  mpi_check(MPI_Ibarrier(comm, &request), "waiting for the other ranks' threads");
  for (int done = 0; true; std::this_thread::sleep_for(kBetweenAsks)) {
    mpi_check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "waiting for the other ranks' threads");
    if (done != 0) return;
    first.check();
    require_in_use(program);
  }
}

class BackgroundCall final : public Request::Impl {
 public:
  BackgroundCall(std::shared_ptr<CommunicationThread> thread, CommunicationThread::Task call,
                 std::shared_ptr<CallCheck> calls, std::chrono::milliseconds timeout)
      : thread_(std::move(thread)), calls_(std::move(calls)), name_(calls_->last()), timeout_(timeout) {
    // std::function must be copyable; std::promise is not. If the thread drops the task, done_.get() throws.
    auto done = std::make_shared<std::promise<bool>>();
    done_ = done->get_future();
    thread_->submit([done = std::move(done), call = std::move(call)](Communicator& comm) {
      try {
        call(comm);
        done->set_value(true);
      } catch (const ArgumentError& error) {
        if (!error.on_all_ranks()) throw;
        done->set_exception(std::current_exception());  // invariant 4: every rank throws this error
      }
    });
  }
  void wait() override {
    const BackgroundWait waiting;
    if (may_be_given_up()) watch();
    try {
      done_.get();
    } catch (const std::future_error&) {
      thread_->wait();  // throws the error that has ended the thread's work
    }
  }
  bool is_done() override {
    return has_ended(std::chrono::milliseconds(0)) ||
           (may_be_given_up() && TimedCall::is_given_up(calls_->timeouts(), name_));
  }

 private:
  [[nodiscard]] bool has_ended(std::chrono::milliseconds patience) const {
    return done_.wait_for(patience) == std::future_status::ready;
  }
  [[nodiscard]] bool may_be_given_up() const { return timeout_.count() > 0 && calls_->is_open(); }
  /// Invariant 6: if a rank gives up the program's communicator, gives up the thread's communicator, too.
  void watch() {
    try {
      {
        TimedCall first(calls_->timeouts(), name_, TimedCall::End::kTimeout, timeout_);
        while (!thread_->has_communicator() && !has_ended(kBetweenAsks)) first.check();
      }
      TimedCall here(calls_->timeouts(), name_, TimedCall::End::kFailure);
      while (!has_ended(kBetweenAsks)) here.check();
    } catch (const CommError& error) {
      thread_->abort(error.what());
      throw;
    }
  }

  std::shared_ptr<CommunicationThread> thread_;
  std::shared_ptr<CallCheck> calls_;
  CallName name_;
  std::chrono::milliseconds timeout_;
  std::future<bool> done_;
};

class DeviceCall final : public Request::Impl {
 public:
  explicit DeviceCall(std::unique_ptr<DeviceMark> mark) : mark_(std::move(mark)) {}
  void wait() override { mark_->wait(); }
  bool is_done() override { return mark_->is_done(); }

 private:
  std::unique_ptr<DeviceMark> mark_;
};

}  // namespace

template <class Checks, class Call>
Request Communicator::start(std::string_view operation, const ConstBufferView& what, const Checks& checks,
                            std::initializer_list<ConstBufferView> buffers, Call call) {
  const auto scope =
      calls_->start(operation, what, checks, do_device_collectives() == nullptr || !takes_device(buffers));
  std::unique_ptr<DeviceMark> mark;
  if (enqueue_on_device(buffers, [&](DeviceCollectives& device) {
        call(device);
        mark = recorded(device.mark(), calls_);
      })) {
    return Request(std::make_unique<DeviceCall>(std::move(mark)));
  }
  if (!background_) background_ = make_background();
  // Taken now: the program may call set_timeout() before the thread makes the call.
  const auto timeout = this->timeout();
  const auto limited = [call = std::move(call), timeout, calls = calls_, name = calls_->last()](Communicator& comm) {
    require_in_use(calls->timeouts());  // invariant 6: may have been given up before
    const CallTimeout limit(comm, timeout);
    comm.calls_->stand_for(name);
    make_call(calls->timeouts(), comm, call);
  };
  return Request(std::make_unique<BackgroundCall>(background_, limited, calls_, timeout));
}

std::shared_ptr<CommunicationThread> Communicator::make_background() {
  // The thread gets only calls that NCCL cannot make, and flat needs no NCCL communicator.
  const bool on_gpus = device_.type == DeviceType::kCuda;
  const auto setup = std::make_shared<CommunicatorSetup>(CommunicatorSetup{
      on_gpus ? "flat" : name_, std::move(background_comm_), topology(), device_, calls_->debug(), timeout(), true});
  do_prepare_background(*setup);
  const CallName name{.operation = "first call in the background", .number = calls_->number()};
  return std::make_shared<CommunicationThread>([setup, name, calls = calls_] {
    const RecordedCall first(calls->group(), name);
    if (setup->timeout.count() > 0) {
      GroupName group = calls->group();
      group.ordinal = -group.ordinal;  // no other group has this number: ordinals are positive
      CallTimeouts timeouts(setup->comm.get(), group, setup->timeout);
      try {
        meet_other_threads(timeouts, name, calls->timeouts(), setup->comm.get());
      } catch (const CommError& error) {
        give_up(calls->timeouts(), group.rank, error);
        throw;
      }
    }
    return make_backend(std::move(*setup));
  });
}

void Communicator::abort(const std::string& reason) {
  const std::string text = "rank " + std::to_string(rank()) + " has aborted the communicator: " + reason;
  calls_->timeouts().abort(text);
}

Request Communicator::ibcast(BufferView buffer, int root) {
  const auto checks = [&] { check_bcast("ibcast", *this, buffer, root); };
  return start("ibcast", buffer, checks, {buffer}, [=](auto& comm) { comm.bcast(buffer, root); });
}

Request Communicator::iallgather(ConstBufferView send, BufferView recv) {
  const auto checks = [&] { check_allgather("iallgather", *this, send, recv); };
  return start("iallgather", send, checks, {send, recv}, [=](auto& comm) { comm.allgather(send, recv); });
}

Request Communicator::iallreduce(BufferView buffer, ReduceOp op) {
  const auto checks = [&] { check_allreduce("iallreduce", *this, buffer, op); };
  return start("iallreduce", buffer, checks, {buffer}, [=](auto& comm) { comm.allreduce(buffer, op); });
}

Request Communicator::ireduce_scatter(ConstBufferView send, BufferView recv, ReduceOp op) {
  const auto checks = [&] { check_reduce_scatter("ireduce_scatter", *this, send, recv, op); };
  return start("ireduce_scatter", recv, checks, {send, recv}, [=](auto& comm) { comm.reduce_scatter(send, recv, op); });
}

}  // namespace mn
