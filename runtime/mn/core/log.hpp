/// Logging through Boost.Log: severity, rank, host and time on every line. Rank 0 logs to the console, the other ranks
/// only warnings and errors; on request each rank also logs everything to a file of its own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mn {

/// Severity of a line.
enum class Severity { kDebug, kInfo, kWarning, kError };

/// The writer of the lines, and their destinations.
struct LogOptions {
  int rank = 0;                        ///< stands on every line; rank 0 prints from `console` up, others warnings
  std::string host;                    ///< empty: gethostname()
  Severity console = Severity::kInfo;  ///< least severity on rank 0's console; MN_LOG_LEVEL overrides it
  std::string file_prefix;             ///< not empty: each rank writes PREFIX-0000.log, …; MN_LOG_FILE overrides it
};

/// Configures the process's log; a second call replaces the first configuration. Without a call, lines carry rank 0.
/// Boost.Log sinks of the program stay and receive mn's lines; records of the program also reach mn's sinks.
void init_log(const LogOptions& options);

/// Logs one line. Thread-safe.
void log(Severity severity, std::string_view message);
/// @{
/// Logs one line with the severity of the function's name. Thread-safe.
inline void log_debug(std::string_view message) { log(Severity::kDebug, message); }
inline void log_info(std::string_view message) { log(Severity::kInfo, message); }
inline void log_warning(std::string_view message) { log(Severity::kWarning, message); }
inline void log_error(std::string_view message) { log(Severity::kError, message); }
/// @}

/// Returns the texts of this process's warnings and errors since the last call: without repetitions, at most 100.
/// Thread-safe.
[[nodiscard]] std::vector<std::string> take_warnings();

}  // namespace mn
