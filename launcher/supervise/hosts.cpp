#include "supervise/hosts.hpp"

#include <algorithm>
#include <csignal>
#include <sstream>
#include <thread>

#include <sys/wait.h>

#include <mn/core/child_process.hpp>
#include <mn/core/command_output.hpp>
#include <mn/core/net/interfaces.hpp>

namespace mn::launcher {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 4s;
constexpr auto kLeastPatience = 2s;
constexpr int kPatienceFactor = 4;  // patience = this factor * the slowest answer so far

/// The command that tests whether `host` can start a process. timeout(1) ends the test even if supervise is killed.
Words probe_of(const std::string& host, bool by_srun) {
  Words probe = {"timeout", "--foreground", "--signal=KILL", std::to_string(kPatience.count())};
  Words how = {"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=3", host, "true"};
  if (by_srun) {
    how = {"srun", "--overlap", "--nodes=1", "--ntasks=1", "--nodelist=" + host, "--mpi=none", "--quiet", "true"};
  } else if (is_own_host(host)) {
    how = {"true"};  // mpiexec starts ranks on its own host without ssh
  }
  probe.insert(probe.end(), how.begin(), how.end());
  return probe;
}

}  // namespace

HostProbes::HostProbes(Words hosts, bool by_srun) {
  for (const auto& host : hosts) {
    const pid_t process = start_process(probe_of(host, by_srun), {.own_group = true});
    probes_.push_back({host, process, process > 0 ? State::kPending : State::kLost});
  }
}

HostProbes::~HostProbes() {
  for (const Probe& probe : probes_) {
    if (probe.state != State::kPending) continue;
    kill(-probe.process, SIGKILL);
    waitpid(probe.process, nullptr, 0);
  }
}

HostProbes::Clock::duration HostProbes::patience() const {
  if (slowest_ == Clock::duration{}) return kPatience;
  return std::clamp<Clock::duration>(kPatienceFactor * slowest_, kLeastPatience, kPatience);
}

void HostProbes::look() {
  for (Probe& probe : probes_) {
    int status = 1;
    if (probe.state != State::kPending || waitpid(probe.process, &status, WNOHANG) != probe.process) continue;
    const bool answered = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    probe.state = answered ? State::kAnswered : State::kLost;
    if (answered) slowest_ = Clock::now() - begin_;
  }
}

Words HostProbes::lost() {
  const auto is_pending = [&] { return std::ranges::count(probes_, State::kPending, &Probe::state) > 0; };
  for (look(); is_pending() && Clock::now() - begin_ < patience(); look()) std::this_thread::sleep_for(20ms);
  Words lost;
  for (const Probe& probe : probes_) {
    if (probe.state != State::kAnswered) lost.push_back(probe.host);
  }
  return lost;
}

void cancel_step(const std::string& job, const std::string& name) {
  std::istringstream lines(command_output({"squeue", "--noheader", "--steps", "--jobs=" + job, "--format=%i %j"}, 5s));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string step, step_name;
    words >> step >> step_name;
    if (step_name == name) static_cast<void>(command_output({"scancel", step}, 5s));
  }
}

}  // namespace mn::launcher
