// failing_job HOW RANK [WAY]: RANK ("all": every rank at once) fails HOW; the other ranks wait for it in a collective
// (WAY computing: they compute for 60 s first; background: in a collective of another thread).
//   HOW wait: prints "rank N pid P" from each rank.
//   WAY chatty: every rank keeps writing to stderr; full-stdout, full-stderr: into a full pipe without a reader;
//   broken-pipe: every rank writes to a broken pipe, as MPI does to a lost rank; handled: the program has a handler for
//   SIGSEGV of its own.
//   HOW above-thread: every rank throws, with a communication thread at work below (WAY uneven: a rank waits there
//   forever); caught-above-thread: and catches the exception; throw-above-a-wait: a destructor never returns.
//   HOW return: RANK returns 3; return-differs: and the other ranks return 0; usage-others-return: RANK throws, and the
//   other ranks return 0.
//   HOW stuck: RANK waits in an activity (WAY patient: for 6 s), the other ranks in a call; other-call: RANK makes a
//   different call; pause: RANK stands still for 8 s (WAY held: under a debugger).
//   HOW leave: RANK returns 0 (leave-first: before any call); leave-late: the other ranks leave, and RANK computes on;
//   leave-message: RANK sends a message, received 4 s after RANK has left (WAY missing: without the message).
//   HOW exit0, exit, exit-in-thread, exit-everywhere: a call of exit().
//   HOW before-mpi: RANK dies before MPI_Init.
//   HOW requeue: every rank asks to be requeued, and RANK takes two seconds longer to end.
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mn/comm/communication_thread.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/core/activity.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/exit_codes.hpp>
#include <mn/core/launcher_variables.hpp>
#include <mn/job/job.hpp>

namespace {

/// An exception above a communication thread at work. `uneven`: a rank has tasks that no other rank joins.
void throw_above_thread(mn::Communicator& comm, bool uneven) {
  mn::CommunicationThread thread(comm);
  const auto memory = thread.communicator().allocate(1 << 20);
  for (int k = 0; k < 20 + (uneven ? comm.rank() % 2 : 0); ++k) {
    thread.submit([memory](mn::Communicator& other) {
      other.allreduce(mn::BufferView(memory.get(), 1 << 18, mn::DType::kFloat32));
    });
  }
  throw mn::DataError("shard 3 is damaged", true);
}

/// Replaces `fd` by a full pipe without a reader.
void clog(int fd) {
  int ends[2];
  if (pipe2(ends, O_NONBLOCK) != 0) throw std::runtime_error("no pipe");
  const std::vector<char> page(4096);
  while (write(ends[1], page.data(), page.size()) > 0) {
  }
  fcntl(ends[1], F_SETFL, 0);
  dup2(ends[1], fd);
}

/// A thread writes to `file`, as libraries do, and keeps the lock while blocked.
void write_on(std::FILE* file) {
  std::thread([file] {
    while (true) {
      std::fputs("text of a library\n", file);
      std::fflush(file);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }).detach();
}

void write_to_broken_pipe() {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  close(ends[0]);
  if (write(ends[1], "x", 1) >= 0) throw std::runtime_error("a pipe without a reader takes what is written");
  close(ends[1]);
}

void go_on_writing(const std::string& way) {
  if (way == "broken-pipe") write_to_broken_pipe();
  if (way == "full-stdout") clog(STDOUT_FILENO);
  if (way == "full-stderr") clog(STDERR_FILENO);
  if (way == "full-stdout") write_on(stdout);
  if (way == "full-stderr" || way == "chatty") write_on(stderr);
}

int overflow_stack(int depth) {
  volatile char here[4096];
  here[0] = static_cast<char>(depth);
  return depth == 0 ? 0 : overflow_stack(depth - 1) + here[0];
}

/// Touches the file MN_FAILING_STAMP: the time from the failure to the job's end begins.
void stamp() {
  if (const char* path = std::getenv("MN_FAILING_STAMP")) std::ofstream(path).put('\n');
}

volatile bool forever = true;  // unknown to the compiler, which else assumes that no exception is thrown

/// Waits forever, as cudaFree does for a collective that other ranks never join.
struct WaitsForEver {
  ~WaitsForEver() {
    while (forever) pause();
  }
};

void throw_above_a_wait() {
  const WaitsForEver below;
  throw std::runtime_error("the disk is full");
}

constexpr std::uintptr_t kInPageZero = 24;

void write_to_page_zero() {
  const volatile std::uintptr_t address = kInPageZero;  // unknown to the compiler
  *reinterpret_cast<volatile int*>(address) = 1;
}

/// Fails on a thread started by a library.
void overflow_in_thread() {
  std::thread([] { std::cout << overflow_stack(1 << 30); }).join();
}

void fail(const std::string& how) {
  stamp();
  if (how == "throw-above-a-wait") throw_above_a_wait();
  if (how == "throw") throw std::runtime_error("the disk is full\nand a second line");
  if (how == "throw-error") throw mn::DataError("shard 3 is damaged");
  if (how == "throw-from-thread") std::thread([] { throw std::runtime_error("thrown in a thread"); }).join();
  if (how == "usage") throw mn::UsageError("--epoch must be positive");  // on a single rank: no agreement
  if (how == "segv") raise(SIGSEGV);
  if (how == "null") write_to_page_zero();
  if (how == "usage-others-return") throw mn::UsageError("--epoch must be positive");
  if (how == "overflow") std::cout << overflow_stack(1 << 30);
  if (how == "thread-overflow") overflow_in_thread();
  if (how == "abort") std::abort();
  if (how == "kill") raise(SIGKILL);
  if (how == "term") raise(SIGTERM);
  if (how == "exit") std::exit(3);
  if (how == "exit0") std::exit(0);
  if (how == "exit-in-thread") std::thread([] { std::exit(0); }).join();
  if (how == "throw-text") throw "the text of a lazy program\nand more";
  if (how == "throw-other") throw std::vector<float>(3);
  if (how == "_exit") _exit(0);
  if (how == "stop") {
    raise(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::seconds(60));  // the launcher sends SIGCONT before SIGKILL
  }
  throw std::invalid_argument("unknown way to fail: " + how);
}

/// The program's own handler, installed before the job: sees the address of the fault.
void handle_segv(int, siginfo_t* info, void*) {
  const char* text =
      info->si_addr == reinterpret_cast<void*>(kInPageZero) ? "the program's own handler\n" : "another fault\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text, std::strlen(text));
  _exit(9);
}

void install_own_handler() {
  struct sigaction action = {};
  action.sa_sigaction = handle_segv;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}

int throw_and_catch(mn::Communicator& comm, bool uneven) {
  try {
    throw_above_thread(comm, uneven);
  } catch (const mn::DataError&) {
  }
  return 7;
}

int ask_for_requeue(bool fails) {
  if (fails) std::atexit([] { std::this_thread::sleep_for(std::chrono::seconds(2)); });
  return mn::kExitRequeue;
}

int receive_late(mn::Communicator& comm, int failing) {
  std::vector<float> data(3'000'000);  // more than MPI keeps for a receiver
  const bool fails = comm.rank() == failing;
  if (fails) std::this_thread::sleep_for(std::chrono::seconds(12));
  fails ? void(comm.recv(data, 0)) : comm.send(data, failing);
  return 9;
}

/// Attaches to all threads of `process`, as gdb does; called by a child of `process`.
void hold(pid_t process) {
  for (const auto& thread : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task")) {
    const pid_t id = std::stoi(thread.path().filename());
    if (ptrace(PTRACE_ATTACH, id, nullptr, nullptr) == 0) waitpid(id, nullptr, __WALL);
  }
}

/// Stops this process for 8 s, until a child continues it.
void stand_still(bool is_held) {
  const pid_t own = getpid();
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  if (fork() == 0) {
    is_held ? hold(own) : void(kill(own, SIGSTOP));
    sleep(8);
    if (!is_held) kill(own, SIGCONT);
    _exit(0);  // its end releases the threads
  }
  std::this_thread::sleep_for(std::chrono::seconds(1));
}

/// The last communicating rank gets a message from `failing`, which leaves main at once.
int leave_with_message(mn::Communicator& comm, int failing, bool sends) {
  int value = 7;
  const int receiver = failing == 0 ? 1 : 0;
  if (comm.rank() == failing && sends) comm.send(mn::BufferView(&value, 1, mn::DType::kInt32), receiver);
  if (comm.rank() != receiver) return 0;
  if (sends) std::this_thread::sleep_for(std::chrono::seconds(4));
  comm.recv(mn::BufferView(&value, 1, mn::DType::kInt32), failing);
  return 0;
}

int get_stuck(mn::Communicator& comm, bool fails, bool is_patient) {
  const mn::ActivityScope activity(fails ? "waiting for a minibatch" : "training");
  mn::note_iteration(17);
  if (fails) std::this_thread::sleep_for(std::chrono::seconds(is_patient ? 6 : 60));
  comm.barrier();
  return is_patient ? 9 : 0;
}

/// The work of ranks without a failure: a minute of collectives, after a minute of sums if `computing`.
int work(mn::Communicator& comm, bool computing, bool in_background) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  volatile double sum = 0;
  while (computing && std::chrono::steady_clock::now() < end) sum = sum + 1;
  std::vector<float> data(1000);
  while (std::chrono::steady_clock::now() < end) in_background ? comm.iallreduce(data).wait() : comm.allreduce(data);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 3 && std::string(argv[3]) == "handled") install_own_handler();
  if (argc > 2 && std::string(argv[1]) == "before-mpi") {
    if (mn::rank_of_environment(mn::environment) == std::atoi(argv[2])) raise(SIGKILL);
  }
  return mn::run_job(argc, argv, [&](mn::Job& job) {
    if (argc < 3) throw mn::UsageError("usage: failing_job HOW RANK [WAY]");
    const std::string how = argv[1];
    const int failing = std::string(argv[2]) == "all" ? job.rank() : std::atoi(argv[2]);
    const std::string way = argc > 3 ? argv[3] : "";
    const bool uneven = way == "uneven";
    const bool fails = job.rank() == failing;
    int value = 0;
    stamp();
    if (how == "leave-first" && fails) return 0;
    if (how == "usage-everywhere") throw mn::UsageError("--epoch must be positive");
    const auto comm = mn::create_communicator(how.ends_with("above-thread") ? "hierarchical" : "flat");
    comm->barrier();
    go_on_writing(way);
    if (how == "above-thread") throw_above_thread(*comm, uneven);
    if (how == "caught-above-thread") return throw_and_catch(*comm, uneven);
    const bool others_return = how == "return-differs" || how == "usage-others-return";
    if (others_return && !fails) return 0;
    if (how == "requeue") return ask_for_requeue(fails);
    if (how == "late-receive") return receive_late(*comm, failing);
    if (how == "exit-everywhere") std::exit(3);
    if (how == "leave-late") return fails ? (std::this_thread::sleep_for(std::chrono::seconds(8)), 0) : 0;
    if (how == "leave-message") return leave_with_message(*comm, failing, way != "missing");
    if (how == "pause" && fails) stand_still(way == "held");
    if (how == "pause") return comm->barrier(), 9;
    if (how == "other-call" && fails) comm->bcast(mn::BufferView(&value, 1, mn::DType::kInt32));
    if (how == "stuck") return get_stuck(*comm, fails, way == "patient");
    if (fails) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      if (how.starts_with("return") || how.starts_with("leave")) stamp();
      if (how.starts_with("leave")) return 0;
      if (how.starts_with("return")) return 3;
      fail(how);
    }
    if (how == "wait")
      std::cout << ("rank " + std::to_string(job.rank()) + " pid " + std::to_string(getpid()) + "\n") << std::flush;
    return work(*comm, way == "computing", way == "background");
  });
}
