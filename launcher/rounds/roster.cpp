#include "rounds/roster.hpp"

#include <chrono>

namespace mn::launcher {

double clock_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace mn::launcher
