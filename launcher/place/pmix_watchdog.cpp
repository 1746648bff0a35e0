#include "place/pmix_watchdog.hpp"

#include <iostream>

#include <unistd.h>

#include <mn/core/environment.hpp>
#include <mn/core/exit_codes.hpp>

namespace mn::launcher {

void PmixWatchdog::watch() const {
  constexpr std::chrono::milliseconds kInterval{2};
  for (; !end_; std::this_thread::sleep_for(kInterval)) {
    if (Clock::now() < deadline_.load()) continue;
    std::cerr << "mnlaunch: error [pmix] " << host_name() << ": the PMIx server of this node has not answered for "
              << std::chrono::duration_cast<std::chrono::seconds>(patience_).count()
              << " s; look for a hung mpiexec, prted or slurmstepd there" << std::endl;
    _exit(kExitCheckFailed);
  }
}

}  // namespace mn::launcher
