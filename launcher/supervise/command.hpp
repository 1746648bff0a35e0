/// The command that supervise starts, rewritten for the hosts that supervise chooses.
///
/// The words of the command before `mnlaunch` belong to the launcher: srun [-N -n -w -x …], or Open MPI's mpiexec [-n,
/// -host …]. Hosts and numbers of ranks are replaced; all other words stay.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace mn::launcher {

using Words = std::vector<std::string>;

/// Parses `text` as a number. If the text is not a number, or the number is less than `least`, throws a UsageError that
/// calls the number `what`.
[[nodiscard]] std::size_t parse_count(const std::string& what, const std::string& text, std::size_t least);

class StepCommand {
 public:
  using Lookup = std::function<std::optional<std::string>(const char* name)>;

  /// Takes the words of a command of srun or mpiexec that contains mnlaunch. The hosts, and the number of ranks on each
  /// host, come from srun's options and the job's variables, or from mpiexec's -host. Throws UsageError if `words` are
  /// no such command, or if the hosts are unknown.
  StepCommand(Words words, const Lookup& lookup);

  [[nodiscard]] bool is_srun() const noexcept { return is_srun_; }
  /// All hosts that the command may use. For srun, these are the hosts of the job without the hosts of --exclude; if
  /// --nodelist is given, the hosts of the list, in its order. For mpiexec, these are the hosts of -host.
  [[nodiscard]] const Words& hosts() const noexcept { return hosts_; }
  /// The number of hosts for which the command asks. No value if the command asks for all hosts.
  [[nodiscard]] std::optional<std::size_t> wanted_hosts() const noexcept { return wanted_hosts_; }
  /// Whether a new start of the program can resume from a checkpoint. False if the program is one of mn's jobs and the
  /// command has no option to resume.
  [[nodiscard]] bool resumes() const;
  [[nodiscard]] std::size_t ranks_per_host() const noexcept { return ranks_per_host_; }
  /// Returns the command that starts the step on `hosts`. `name` is the name of the step, which squeue shows. If
  /// `overlap` is true, the step may begin while an earlier step still holds its cores.
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
