/// Stand-ins for launchers around mnlaunch supervise.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "supervise/supervise.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::launcher::test_steps {

/// Stand-ins for ssh, mpiexec and srun; the last two run `step`.
class StandIns {
 public:
  explicit StandIns(const std::string& step) {
    const std::string start = "echo \"$*\" >>" + (folder_.path() / "starts").string() + "\n" + step;
    write("mpiexec", start);
    write("srun", "case $* in *\" true\") exit 0;; esac\n" + start);
    write("ssh",
          "case $* in *\" lost true\"|*localhost*|*127.*|*\" $(hostname) true\") exit 1;; *\" slow true\") sleep 1;; "
          "*\" silent true\") exec sleep 60;; esac");
    write("mnlaunch", "");
    path_ = std::getenv("PATH");
    setenv("PATH", (folder_.path().string() + ":" + path_).c_str(), 1);
    setenv("MN_STATUS_FILE", (folder_.path() / "status").c_str(), 1);
  }
  ~StandIns() {
    setenv("PATH", path_.c_str(), 1);
    unsetenv("MN_STATUS_FILE");
  }
  StandIns(const StandIns&) = delete;
  StandIns& operator=(const StandIns&) = delete;

  [[nodiscard]] Words starts() const { return lines("starts"); }
  /// The content of the file `name` that the step wrote.
  [[nodiscard]] Words lines(const std::string& name) const {
    Words lines;
    std::ifstream file(folder_.path() / name);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() / name) << "#!/bin/sh\n" << text << "\n";
    std::filesystem::permissions(folder_.path() / name, std::filesystem::perms::owner_all);
  }

  test::TemporaryFolder folder_;
  std::string path_;
};

inline constexpr const char* kProgress =
    R"(printf 'began 0\niteration %d0\nsaved 20\nup 1\nloaded 2\nstepped 3\n' $(wc -l <"${0%/*}/starts") >"$MN_STATUS_FILE"; )";

inline SuperviseOptions on_hosts(const std::string& hosts) {
  return {.restarts = 2, .command = {"mpiexec", "-host", hosts, "mnlaunch", "x"}};
}

}  // namespace mn::launcher::test_steps
