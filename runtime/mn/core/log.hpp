/// Logging through Boost.Log: severity, rank, host and time on every line. Rank 0 writes to the console, the other
/// ranks only warnings and errors; each rank writes all to a file of its own on request.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mn {

/// Severity of a line.
enum class Severity { kDebug, kInfo, kWarning, kError };

/// Who writes lines, and where they go.
struct LogOptions {
  int rank = 0;                        ///< stands on every line; rank 0 prints from `console` up, others warnings
  std::string host;                    ///< empty: gethostname()
  Severity console = Severity::kInfo;  ///< least severity that rank 0 prints; MN_LOG_LEVEL overrides it
  std::string file_prefix;             ///< not empty: each rank writes PREFIX-0000.log, …; MN_LOG_FILE overrides it
};

/// Sets the process's log up; calling it again replaces the set-up. Without a call, lines carry rank 0 of no job. Sinks
/// that the program has added to Boost.Log stay, and get mn's lines too; its own records go to mn's sinks as well.
void init_log(const LogOptions& options);

/// One line. Thread-safe.
void log(Severity severity, std::string_view message);
/// @{
/// One line of that severity. Thread-safe.
inline void log_debug(std::string_view message) { log(Severity::kDebug, message); }
inline void log_info(std::string_view message) { log(Severity::kInfo, message); }
inline void log_warning(std::string_view message) { log(Severity::kWarning, message); }
inline void log_error(std::string_view message) { log(Severity::kError, message); }
/// @}

/// Hands out the texts of this process's warnings and errors since the last call, equal ones once, the first 100 of
/// them. Thread-safe.
[[nodiscard]] std::vector<std::string> take_warnings();

}  // namespace mn
