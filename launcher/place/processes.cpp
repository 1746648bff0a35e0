#include "place/processes.hpp"

#include <charconv>
#include <fstream>
#include <iterator>
#include <string>

#include <unistd.h>

namespace mn::launcher {

pid_t parent_process(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = text.rfind(") ");  // the line is "12 (name) S 7 …"
  pid_t parent = 0;
  if (name_end != std::string::npos && name_end + 4 < text.size()) {
    std::from_chars(text.data() + name_end + 4, text.data() + text.size(), parent);
  }
  return parent;
}

pid_t process_above_group() {
  pid_t process = getppid();
  while (process > 0 && getpgid(process) == getpgrp()) process = parent_process(process);
  return process;
}

}  // namespace mn::launcher
