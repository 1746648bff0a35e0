/// Writes to the stderr of an ending process: the line with the reason must be the last. All functions may be called on
/// any thread and in signal handlers.
///
/// 1. A line of up to PIPE_BUF bytes is one write(2), so lines of several ranks do not mix (pipe(7)).
/// 2. A full pipe without a reader delays a process by at most a second.
/// 3. A process that has written the reason ends only after the user can see the line (wait_until_shown()).
/// 4. Between silence_stderr() and restore_stderr() only write_stderr() reaches the old stderr; descriptor 2 goes to
///    /dev/null.
#pragma once

#include <string_view>

namespace mn {

/// Writes `line` to stderr, also after silence_stderr(). Gives up if stderr is a pipe that stays full for a second.
void write_stderr(std::string_view line) noexcept;

/// Waits 250 ms, until srun has shown the output. After the last task's end, srun drops output of a killed job's ranks,
/// and TCP may delay a line until the previous line is acknowledged (RFC 1122, 4.2.3.2: 200 ms in practice).
void wait_until_shown() noexcept;

/// Sends stderr to /dev/null in a process about to end: MPI's pages about the abort and about lost connections would
/// hide the reason.
void silence_stderr() noexcept;

/// Undoes silence_stderr() for a later writer, for example a sanitizer with a report of the fault.
void restore_stderr() noexcept;

}  // namespace mn
