/// Writes a log through Boost.Log, with severity, rank, host and time on every line. The console gets all lines of rank
/// 0, but only the warnings and errors of other ranks. On request each rank also writes all of its lines to a file of
/// its own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mn {

/// The severity of a line of the log.
enum class Severity { kDebug, kInfo, kWarning, kError };

/// Who writes the lines of the log, and where the lines go.
struct LogOptions {
  int rank = 0;                        ///< printed on every line; ranks other than 0 print only warnings and errors
  std::string host;                    ///< name of the host; empty: the name from gethostname()
  Severity console = Severity::kInfo;  ///< least severity on rank 0's console; MN_LOG_LEVEL overrides it
  std::string file_prefix;             ///< not empty: each rank writes PREFIX-0000.log, …; MN_LOG_FILE overrides it
};

/// Configures the process's log; a second call replaces the first configuration. Before the first call, lines carry
/// rank 0. Sinks (outputs) that the program has added to Boost.Log stay and receive mn's lines, too. mn's sinks also
/// receive the program's records.
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

/// Returns the texts of the warnings and errors that this process has logged since the last call. Each text is returned
/// once, and at most 100 texts are kept. Thread-safe.
[[nodiscard]] std::vector<std::string> take_warnings();

}  // namespace mn
