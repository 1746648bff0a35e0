/// The command that supervise starts, rewritten for the hosts that supervise chooses.
///
/// The words before `mnlaunch` belong to the launcher: srun [-N -n -w -x …], or Open MPI's mpiexec [-n, -host …]. Hosts
/// and numbers of ranks are replaced; all other words stay.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace mn::launcher {

using Words = std::vector<std::string>;

/// Throws a UsageError that calls the number `what` if `text` is not a number of at least `least`.
[[nodiscard]] std::size_t parse_count(const std::string& what, const std::string& text, std::size_t least);

class StepCommand {
 public:
  using Lookup = std::function<std::optional<std::string>(const char* name)>;

  /// Takes a command of srun or mpiexec that contains mnlaunch. Hosts and ranks come from srun's options and the job's
  /// variables, or from mpiexec's -host. Throws UsageError.
  StepCommand(Words words, const Lookup& lookup);

  [[nodiscard]] bool is_srun() const noexcept { return is_srun_; }
  /// All hosts for the command: with mpiexec of -host; with srun of --nodelist or the job, without --exclude.
  [[nodiscard]] const Words& hosts() const noexcept { return hosts_; }
  /// No value if the command asks for all hosts.
  [[nodiscard]] std::optional<std::size_t> wanted_hosts() const noexcept { return wanted_hosts_; }
  /// False if the program is one of mn's jobs but the command has no option to resume.
  [[nodiscard]] bool resumes() const;
  [[nodiscard]] std::size_t ranks_per_host() const noexcept { return ranks_per_host_; }
  /// Returns the command that starts the step on `hosts`, with a `name` for squeue. With `overlap`, it may begin while
  /// an earlier step still holds its cores.
  [[nodiscard]] Words on(const Words& hosts, const std::string& name, bool overlap) const;

 private:
  void read_srun(const Lookup& lookup);
  void choose_hosts(const std::string& allocation);
  void read_mpiexec();
  std::optional<std::string> take(const Words& names);

  Words words_;  // without hosts and numbers of ranks
  bool is_srun_ = false;
  Words hosts_;
  std::optional<std::size_t> wanted_hosts_;
  std::size_t ranks_per_host_ = 1;
};

}  // namespace mn::launcher
