/// Exit codes of mnlaunch and of programs.
#pragma once

namespace mn {

/// @{
/// The numbers 75 and 78 are EX_TEMPFAIL and EX_CONFIG of sysexits.h; 126 and 127 are the codes of shells.
inline constexpr int kExitUsage = 2;         ///< wrong options, arguments or variables
inline constexpr int kExitRequeue = 75;      ///< a checkpoint is written; start the job again
inline constexpr int kExitCheckFailed = 78;  ///< mnlaunch's checks stopped the job
inline constexpr int kExitCannotRun = 126;   ///< the program cannot be run
inline constexpr int kExitNotFound = 127;    ///< the program does not exist
/// @}

}  // namespace mn
