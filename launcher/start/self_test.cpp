#include "start/self_test.hpp"

#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>

#include "facts/find_program.hpp"
#include "start/exec.hpp"

namespace mn::launcher {
namespace {

/// The self test writes the file at its end: it would replace a device, and wait for the reader of a pipe.
void require_file(const std::string& option, const std::string& path) {
  std::error_code failure;
  const auto status = std::filesystem::status(path, failure);
  if (path.empty() || !std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return;
  throw UsageError(option + ": " + path + " is not a file");
}

/// The report of thousands of ranks is too long for a variable: the self test reads a descriptor.
int file_with(const std::string& report) {
  const int file = memfd_create("mn-doctor-report", 0);
  std::size_t written = 0;
  while (file >= 0 && written < report.size()) {
    const ssize_t bytes = write(file, report.data() + written, report.size() - written);
    if (bytes < 0 && errno != EINTR) break;
    if (bytes > 0) written += static_cast<std::size_t>(bytes);
  }
  if (file < 0 || written < report.size() || lseek(file, 0, SEEK_SET) != 0) {
    throw Error(with_errno("--doctor: cannot keep the report of the checks in memory", errno));
  }
  return file;
}

}  // namespace

std::string path_of_self_test() { return (executable_path().parent_path() / "mnlaunch-selftest").string(); }

void require_time_of_doctor(const Variables& variables) {
  constexpr const char* kName = "MN_DOCTOR_TIMEOUT";
  const int seconds = variables.number(kName).value_or(1);
  if (seconds < 1) throw UsageError(kName + (" is " + std::to_string(seconds)) + ": give seconds, at least 1");
}

void require_files_of_doctor(const Options& options) {
  require_file("--save", options.save);
  require_file("--history", options.history);
  try {
    if (!options.against.empty()) static_cast<void>(parse_json(read_file(options.against), options.against));
  } catch (const Error& error) {
    throw UsageError(std::string("--against: ") + error.what());
  }
}

void become_self_test(const ThisRank& rank, const std::string& report, Variables& variables) {
  const std::string path = path_of_self_test();
  const auto program = find_program(path, rank.surroundings.folder, executable_path().parent_path(), "");
  std::vector<std::string> arguments = {path};
  if (rank.options.json) arguments.emplace_back("--json");
  for (const auto& [option, file] : {std::pair("--save", rank.options.save),
                                     {"--against", rank.options.against},
                                     {"--history", rank.options.history}}) {
    if (!file.empty()) arguments.insert(arguments.end(), {option, file});
  }
  if (rank.here.rank == 0) variables.set("MN_DOCTOR_REPORT_FD", std::to_string(file_with(report)));
  replace_process(program, arguments, variables);
}

}  // namespace mn::launcher
