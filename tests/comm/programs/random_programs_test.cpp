// Random programs of legal calls: they end on every rank and backend, and every buffer holds the expected values.
//
// Runs MN_PROGRAMS programs (20) from number MN_FIRST_PROGRAM (1) on, each with its own backends and 1 to 3 nodes. A
// call of more than MN_PROGRAM_PATIENCE seconds (60) ends the test with the program's number.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>
#include <mpi.h>

#include <mn/comm/device/cuda.hpp>
#include <mn/core/environment.hpp>

#include "tests/comm/programs/runner.hpp"

namespace mn::testing {
namespace {

/// Ends the process if a call takes too long.
class Watch {
 public:
  explicit Watch(std::int64_t patience_s) : patience_(patience_s), thread_([this] { watch(); }) {}
  ~Watch() {
    stop_ = true;
    thread_.join();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void begin(std::string call) {
    const std::lock_guard lock(mutex_);
    call_ = std::move(call);
    since_ = std::chrono::steady_clock::now();
  }

 private:
  void watch() {
    while (!stop_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const std::lock_guard lock(mutex_);
      if (std::chrono::steady_clock::now() - since_ < patience_) continue;
      std::fprintf(stderr, "hangs: %s\n", call_.c_str());
      std::_Exit(1);
    }
  }

  std::chrono::seconds patience_;
  std::mutex mutex_;
  std::string call_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  std::atomic<bool> stop_ = false;
  std::thread thread_;  // last
};

TEST(RandomPrograms, EndWithWhatTheModelSays) {
  Machine machine;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &machine.ranks);
  machine.gpus = cuda_device_count() > 0;
  const auto first = static_cast<std::uint64_t>(environment_int("MN_FIRST_PROGRAM").value_or(1));
  const auto count = static_cast<std::uint64_t>(environment_int("MN_PROGRAMS").value_or(20));
  Watch watch(environment_int("MN_PROGRAM_PATIENCE").value_or(60));
  std::size_t calls = 0;
  for (std::uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    machine.nodes = 1 + static_cast<int>(seed % 3);
    const Program program = random_program(seed, machine);
    const std::string name = "program " + std::to_string(seed) + " on rank " + std::to_string(rank) + " of " +
                             std::to_string(machine.ranks) + ", " + std::to_string(machine.nodes) + " nodes, " +
                             program.backends[0] + " and " + program.backends[1] + describe(program.conditions);
    SCOPED_TRACE(name);
    watch.begin(name + ": communicators");
    run_program(program, rank, machine, [&](const Action& action) { watch.begin(name + ": " + describe(action)); });
    calls += program.calls();
  }
  if (rank == 0) std::printf("%zu calls\n", calls);
}

}  // namespace
}  // namespace mn::testing
