#include <mn/job/debugger.hpp>

#include <fstream>
#include <string>

namespace mn {

bool has_debugger(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/status");
  for (std::string word; file >> word;) {
    if (word == "TracerPid:") return file >> word && word != "0";
  }
  return false;
}

}  // namespace mn
