#include "place/ask_pmi_server.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mn/core/environment.hpp>
#include <mn/core/fd.hpp>

#include "place/processes.hpp"

namespace mn::launcher {
namespace {

/// The value of `field` in a line such as "cmd=get_result rc=0 value=(vector,(0,1,2))". A value has no blanks.
std::optional<std::string> value_of(const std::string& answer, const std::string& field) {
  const std::string line = " " + answer;
  const std::size_t at = line.find(" " + field + "=");
  if (at == std::string::npos) return std::nullopt;
  const std::size_t begin = at + field.size() + 2;
  return line.substr(begin, line.find_first_of(" \n", begin) - begin);
}

constexpr int kMaxRanks = 10'000'000;
constexpr int kMaxGenerations = 1000;
constexpr std::size_t kMaxAnswerBytes = 1 << 16;  // PMI-1 allows lines of 1 KiB and a little more

// The descriptors in the relay process (see leave_pmi_finalizer()).
constexpr int kServer = 0;   // the server's socket
constexpr int kProgram = 1;  // socket pair; its far end replaces the server's socket in the program
constexpr int kEnd = 2;      // readable once the program has ended
constexpr int kHolder = 3;   // readable once the first holder of the connection has ended (first_holder)

int descriptor_of(pid_t process) { return static_cast<int>(syscall(SYS_pidfd_open, process, 0)); }

std::string target_of(const std::string& process, int fd) {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/" + process + "/fd/" + std::to_string(fd), error).string();
}

/// Returns the farthest ancestor that holds the connection `fd`, such as a script that starts several programs; this
/// process if there is none.
pid_t first_holder(int fd) {
  const std::string server = target_of("self", fd);
  pid_t holder = getpid();
  if (server.empty()) return holder;
  for (pid_t above = getppid(); above > 0 && target_of(std::to_string(above), fd) == server;
       above = parent_process(above)) {
    holder = above;
  }
  return holder;
}

bool send_all(int fd, const char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool pass_on(int from, int to) {
  char bytes[4096];
  const ssize_t size = recv(from, bytes, sizeof bytes, 0);
  if (size < 0 && errno == EINTR) return true;
  return size > 0 && send_all(to, bytes, static_cast<std::size_t>(size));
}

/// Relays messages between the program and the PMI server. True once the program and the first holder of the connection
/// have ended without any message. False if the server has ended, or the program after a message.
bool program_was_silent() {
  pollfd server{kServer, POLLIN, 0}, program{kProgram, POLLIN, 0}, end{kEnd, POLLIN, 0};
  bool has_spoken = false;
  while (true) {
    pollfd entries[] = {server, program, end};  // poll() ignores descriptors below 0
    if (poll(entries, 3, -1) < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    if (entries[1].revents != 0) {
      const bool passed = pass_on(kProgram, kServer);
      has_spoken = has_spoken || passed;
      if (!passed && has_spoken) return false;
      if (!passed) program.fd = server.fd = -1;  // the program has ended, or has closed an unknown descriptor
    } else if (entries[0].revents != 0) {
      if (!pass_on(kServer, kProgram)) return false;
    } else if (entries[2].revents != 0) {
      if (!has_spoken && end.fd == kHolder) return true;
      end.fd = has_spoken ? -1 : kHolder;  // after a silent program, waits for the first holder, too
    }
  }
}

void finalize() {
  constexpr const char* kFinalize = "cmd=finalize\n";
  constexpr int kPatienceMs = 5000;
  pollfd readable{kServer, POLLIN, 0};
  char answer[64];
  if (send(kServer, kFinalize, std::strlen(kFinalize), MSG_NOSIGNAL) <= 0) return;
  if (poll(&readable, 1, kPatienceMs) == 1) static_cast<void>(recv(kServer, answer, sizeof answer, 0));
}

[[noreturn]] void stay(const std::array<int, 4>& descriptors) {
  // Signals of the launcher to the rank's process group are meant for the program.
  setsid();
  std::array<int, 4> copies{};  // numbers above the final numbers
  for (std::size_t i = 0; i < 4; ++i) copies[i] = fcntl(descriptors[i], F_DUPFD, kHolder + 1);
  for (int i = kServer; i <= kHolder; ++i) dup2(copies[static_cast<std::size_t>(i)], i);
  // Closes copies of pipes, for which readers of the program's output and leave_pmi_finalizer() wait.
  close_from(kHolder + 1);
  if (program_was_silent()) finalize();
  _exit(0);
}

void wait_for_end_of(int pipe) {
  char none;
  while (read(pipe, &none, 1) < 0 && errno == EINTR) continue;
}

/// The relay needs Linux 5.3: with older kernels, a process can wait only for its own children.
bool can_leave_pmi_finalizer() { return static_cast<bool>(Fd(descriptor_of(getpid()))); }

/// Kills the relays of earlier processes of this rank. The next relay sends "finalize" for all of them.
void dismiss_pmi_finalizers(int fd) {
  const std::string server = target_of("self", fd);
  if (!server.starts_with("socket:")) return;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    pid_t process = 0;
    std::from_chars(name.data(), name.data() + name.size(), process);
    if (process == 0 || process == getpid() || target_of(name, kServer) != server) continue;
    kill(process, SIGKILL);
    constexpr std::chrono::milliseconds kPause{1};
    constexpr int kMaxPauses = 1000;
    for (int i = 0; i < kMaxPauses && target_of(name, kServer) == server; ++i) std::this_thread::sleep_for(kPause);
  }
}

/// Forks a relay between the PMI server, at the descriptor `fd`, and this process, which later becomes the program. The
/// relay sends "finalize" if the program and the script above it end without a message. After a message, the program
/// itself must do so; otherwise the server takes the end for a crash.
void leave_pmi_finalizer(int fd) {
  const Fd self(descriptor_of(getpid()));
  const Fd holder(descriptor_of(first_holder(fd)));
  int pipe_ends[2];
  int pair[2];
  if (!self || !holder || pipe2(pipe_ends, O_CLOEXEC) != 0) return;
  const Fd is_ready(pipe_ends[0]);
  Fd stays(pipe_ends[1]);
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return;
  const Fd near(pair[0]);
  const Fd far(pair[1]);
  const pid_t child = fork();
  if (child == 0) {
    if (fork() != 0) _exit(0);  // the relay is a grandchild, so the program has no unknown child
    stay({fd, near.get(), self.get(), holder.get()});
  }
  stays.reset();
  if (child < 0 || waitpid(child, nullptr, 0) != child) return;
  wait_for_end_of(is_ready.get());  // now the relay holds the server's socket; dup2() closes it here
  dup2(far.get(), fd);
}

class PmiSession : public Board {
 public:
  PmiSession(int fd, std::chrono::milliseconds patience) : fd_(fd), patience_(patience) {}
  ~PmiSession() override {
    if (has_spoken_) leave_pmi_finalizer(fd_);
  }

  std::optional<ServerJob> read_job(int rank, int size) {
    if (rank < 0 || rank >= size || !can_leave_pmi_finalizer()) return std::nullopt;
    // Otherwise a relay of an earlier mnlaunch would read the server's answers to this process.
    dismiss_pmi_finalizers(fd_);
    if (value_of(ask("init pmi_version=1 pmi_subversion=1"), "rc") != "0") return std::nullopt;
    rank_ = rank;
    space_ = value_of(ask("get_my_kvsname"), "kvsname").value_or("");
    const auto nodes = nodes_of_mapping(get_text("PMI_process_mapping").value_or(""), size);
    if (space_.empty() || !nodes) return std::nullopt;
    ServerJob job{.name_space = space_, .rank = rank, .node_ids = *nodes, .hosts = {}};
    for (const int node : *nodes) {
      const bool is_here = node == nodes->at(static_cast<std::size_t>(rank));
      job.hosts.push_back(is_here ? host_name() : "node-" + std::to_string(node));
    }
    begin_generation();
    return job;
  }

  void put(const std::string& key, const std::string& text) override {
    static_cast<void>(ask("put kvsname=" + space_ + " key=" + key_of(rank_, key) + " value=" + text));
  }
  void fence() override {
    if (value_of(ask("barrier_in", patience_), "cmd") == "barrier_out") return;
    throw FenceTimeout("not all ranks came to the PMI server's barrier");
  }
  std::optional<std::string> get(int rank, const std::string& key) override { return get_text(key_of(rank, key)); }

 private:
  /// Sends "cmd=COMMAND" and returns the server's answer, a line. Empty if no answer comes within `patience`.
  std::string ask(const std::string& command, std::chrono::milliseconds patience = std::chrono::seconds(5)) {
    const std::string request = "cmd=" + command + "\n";
    if (!send_all(fd_, request.data(), request.size())) return "";
    std::string answer;
    while (!answer.ends_with('\n')) {
      if (answer.size() > kMaxAnswerBytes) return "";
      pollfd readable{fd_, POLLIN, 0};
      char c = 0;  // one byte at a time: bytes after the line end are for the program
      if (poll(&readable, 1, static_cast<int>(patience.count())) != 1 || recv(fd_, &c, 1, 0) != 1) return "";
      answer += c;
      has_spoken_ = true;  // a server that never answers needs no finalizer
    }
    return answer;
  }

  std::optional<std::string> get_text(const std::string& key) {
    const std::string answer = ask("get kvsname=" + space_ + " key=" + key);
    return value_of(answer, "rc").value_or("0") == "0" ? value_of(answer, "value") : std::nullopt;
  }

  [[nodiscard]] std::string key_of(int rank, const std::string& key) const {
    return "mn-" + std::to_string(generation_) + "-" + std::to_string(rank) + "-" + key;
  }

  void begin_generation() {
    // The server keeps the values of earlier processes of this rank, so this process takes a number with unused keys.
    while (generation_ < kMaxGenerations && get_text(key_of(rank_, "came"))) ++generation_;
    put("came", "1");
  }

  int fd_;
  std::chrono::milliseconds patience_;
  int rank_ = 0;
  int generation_ = 0;       ///< earlier mnlaunch processes of this rank; their values stay on the server
  std::string space_;        ///< name of the job's key-value space, unique to the job
  bool has_spoken_ = false;  ///< the server has answered, so the rank must finalize
};

}  // namespace

std::optional<std::vector<int>> nodes_of_mapping(std::string_view mapping, int size) {
  struct Block {
    int first, nodes, ranks;
  };
  std::vector<Block> blocks;
  const std::string text(mapping);
  for (std::size_t at = text.find(",("); at != std::string::npos; at = text.find(",(", at + 1)) {
    Block block{};
    if (std::sscanf(text.c_str() + at, ",(%d,%d,%d)", &block.first, &block.nodes, &block.ranks) != 3)
      return std::nullopt;
    if (block.first < 0 || block.first > kMaxRanks || block.nodes < 1 || block.ranks < 1) return std::nullopt;
    blocks.push_back(block);
  }
  if (!mapping.starts_with("(vector,") || blocks.empty()) return std::nullopt;
  if (size > kMaxRanks) return std::nullopt;
  std::vector<int> nodes;
  // Of a cyclic layout, Hydra writes only one period.
  for (std::size_t i = 0; static_cast<int>(nodes.size()) < size; i = (i + 1) % blocks.size()) {
    const Block& block = blocks[i];
    const std::int64_t ranks = std::int64_t{block.nodes} * block.ranks;
    for (int k = 0; k < ranks && static_cast<int>(nodes.size()) < size; ++k) {
      nodes.push_back(block.first + k / block.ranks);
    }
  }
  return nodes;
}

JobServer ask_pmi_server(const Variables& variables, std::chrono::milliseconds patience) {
  constexpr const char* kOwner = "a PMI server";
  const int rank = variables.needed("PMI_RANK", kOwner);
  const int size = variables.needed("PMI_SIZE", kOwner);
  auto session = std::make_unique<PmiSession>(variables.needed("PMI_FD", kOwner), patience);
  auto job = session->read_job(rank, size);
  if (!job) return {};
  return {std::move(session), std::move(job), ""};
}

}  // namespace mn::launcher
