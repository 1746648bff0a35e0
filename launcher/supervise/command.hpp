/// The command that supervise starts, rewritten for a choice of hosts.
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

/// `text` as a number. Throws UsageError, with the name `what`, if the text is not a number, or less than `least`.
[[nodiscard]] std::size_t parse_count(const std::string& what, const std::string& text, std::size_t least);

class StepCommand {
 public:
  using Lookup = std::function<std::optional<std::string>(const char* name)>;

  /// Throws UsageError unless `words` are srun's or mpiexec's with mnlaunch in them, and hosts and ranks per host are
  /// known: for srun from its options and the job's variables, for mpiexec from -host.
  StepCommand(Words words, const Lookup& lookup);

  [[nodiscard]] bool is_srun() const noexcept { return is_srun_; }
  /// All hosts that the command may use: the job's without --exclude's, in --nodelist's order, or -host's.
  [[nodiscard]] const Words& hosts() const noexcept { return hosts_; }
  /// Number of hosts that the command asks for; no value: all.
  [[nodiscard]] std::optional<std::size_t> wanted_hosts() const noexcept { return wanted_hosts_; }
  /// False for one of mn's jobs without an option to resume.
  [[nodiscard]] bool resumes() const;
  [[nodiscard]] std::size_t ranks_per_host() const noexcept { return ranks_per_host_; }
  /// The command on `hosts`. `name`: name of the step, for squeue; `overlap`: the step may begin while an earlier step
  /// still holds its cores.
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
