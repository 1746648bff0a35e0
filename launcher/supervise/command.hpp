/// The command that supervise starts, for other hosts than it names itself.
///
/// What stands before `mnlaunch` in it is the launcher's: srun [-N -n -w -x …], or Open MPI's
/// mpiexec [-n, -host …]. Its hosts and numbers are replaced, by some of those that it may use; all else stays.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace mn::launcher {

using Words = std::vector<std::string>;

/// `text` as a number. Throws UsageError that names `what` if it is anything else, or less than `least`.
[[nodiscard]] std::size_t parse_count(const std::string& what, const std::string& text, std::size_t least);

class StepCommand {
 public:
  using Lookup = std::function<std::optional<std::string>(const char* name)>;

  /// Throws UsageError if `words` is neither srun's nor mpiexec's with mnlaunch in it, or if hosts and ranks per host
  /// are unknown: those of srun come from its options and the job's variables, those of mpiexec from -host.
  StepCommand(Words words, const Lookup& lookup);

  [[nodiscard]] bool is_srun() const noexcept { return is_srun_; }
  /// All hosts that it may use: the job's without those of --exclude, in --nodelist's order, or those of -host.
  [[nodiscard]] const Words& hosts() const noexcept { return hosts_; }
  /// On how many of them the command wants to run; no value: on all.
  [[nodiscard]] std::optional<std::size_t> wanted_hosts() const noexcept { return wanted_hosts_; }
  /// False for one of mn's jobs whose options do not say what to resume.
  [[nodiscard]] bool resumes() const;
  [[nodiscard]] std::size_t ranks_per_host() const noexcept { return ranks_per_host_; }
  /// The command on these hosts. `name`: the step's, by which squeue finds it; `overlap`: it may begin while an
  /// earlier step still holds its cores.
  [[nodiscard]] Words on(const Words& hosts, const std::string& name, bool overlap) const;

 private:
  void read_srun(const Lookup& lookup);
  void choose_hosts(const std::string& allocation);
  void read_mpiexec();
  std::optional<std::string> take(const Words& names);

  Words words_;  // without hosts and numbers
  bool is_srun_ = false;
  Words hosts_;
  std::optional<std::size_t> wanted_hosts_;
  std::size_t ranks_per_host_ = 1;
};

}  // namespace mn::launcher
