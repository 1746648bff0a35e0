#include "place/processes.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

#include <time.h>
#include <unistd.h>

namespace mn::launcher {
namespace {

std::string read_of(pid_t process, const char* file) {
  std::ifstream stream("/proc/" + std::to_string(process) + "/" + file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// The fields of /proc/PID/stat from the third on: "S 7 …" of "12 (name) S 7 …".
std::istringstream fields_after_name(pid_t process) {
  const std::string text = read_of(process, "stat");
  const std::size_t name_end = text.rfind(") ");
  return std::istringstream(name_end == std::string::npos ? "" : text.substr(name_end + 2));
}

bool is_copy_of_parent(pid_t process, pid_t parent) {
  const auto is_alike = [&](const char* file) { return read_of(process, file) == read_of(parent, file); };
  return parent > 0 && is_alike("cmdline") && is_alike("environ");
}

bool starts_ranks(const std::string& program) {
  constexpr std::string_view kStarters[] = {"mpiexec", "mpirun", "orted", "prterun", "prted", "hydra_pmi_proxy"};
  // "slurmstepd: [12.0]" starts tasks of a step; "slurmstepd: [12.batch]" starts a batch script and no ranks.
  const bool is_task =
      program.starts_with("slurmstepd: ") && program.find_first_of("0123456789", program.find('.')) < program.size();
  return is_task || std::ranges::find(kStarters, program) != std::end(kStarters);
}

}  // namespace

std::string program_of_process(pid_t process) {
  const std::string title = read_of(process, "cmdline").c_str();
  return title.substr(title.rfind('/') + 1);
}

pid_t parent_process(pid_t process) {
  std::string state;
  pid_t parent = 0;
  fields_after_name(process) >> state >> parent;
  return parent;
}

pid_t starter_of_ranks(const std::string& variable) {
  const std::string entry = std::string(1, '\0') + variable + "=";
  const auto has_it = [&](pid_t process) {
    return (std::string(1, '\0') + read_of(process, "environ")).find(entry) != std::string::npos;
  };
  pid_t process = getppid();
  while (process > 0 && has_it(process)) process = parent_process(process);
  for (pid_t parent = 0; process > 0; process = parent) {
    parent = parent_process(process);
    if (!is_copy_of_parent(process, parent)) break;
  }
  return process;
}

pid_t process_of_launcher() {
  pid_t process = getppid();
  while (process > 0 && !starts_ranks(program_of_process(process))) process = parent_process(process);
  return process;
}

std::optional<std::chrono::system_clock::time_point> begin_of(pid_t process) {
  auto fields = fields_after_name(process);
  std::string skipped;
  for (int number = 3; number < 22; ++number) fields >> skipped;
  double ticks = 0;
  fields >> ticks;  // proc(5): field 22 is the start time in ticks since the boot
  timespec now{};
  if (!fields || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return std::nullopt;
  const auto tick_s = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  const std::chrono::duration<double> age(static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) -
                                          ticks * tick_s);
  using Clock = std::chrono::system_clock;
  return Clock::now() - std::chrono::duration_cast<Clock::duration>(age);
}

void close_from(int first) {
  if (close_range(static_cast<unsigned>(first), ~0U, 0) == 0) return;
  for (int fd = first; fd < 1024; ++fd) close(fd);  // before Linux 5.9
}

}  // namespace mn::launcher
