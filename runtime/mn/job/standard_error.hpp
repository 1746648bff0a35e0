/// Writes to the stderr of a process that ends. The line with the reason of the end must be the last. All functions may
/// be called on any thread and in signal handlers.
///
/// 1. A line of up to PIPE_BUF bytes is one write(2), so lines of several ranks do not mix (pipe(7)).
/// 2. If stderr is a full pipe without a reader, a write delays the process by at most a second.
/// 3. A process that has written the reason ends only after the user can see the line (wait_until_shown()).
/// 4. Between silence_stderr() and restore_stderr() only write_stderr() reaches the old stderr; descriptor 2 goes to
///    /dev/null.
#pragma once

#include <string_view>

namespace mn {

/// Writes `line` to stderr, also after silence_stderr(). Gives up if stderr is a pipe that stays full for a second.
void write_stderr(std::string_view line) noexcept;

/// Waits 250 ms, until srun has shown the output. After the end of a killed job's last task, srun drops output that
/// arrives late. TCP may delay a line until the previous line is acknowledged (RFC 1122, 4.2.3.2: 200 ms in practice).
void wait_until_shown() noexcept;

/// Redirects stderr to /dev/null in a process that is ending, because MPI's pages of text would hide the reason.
void silence_stderr() noexcept;

/// Undoes silence_stderr() for a later writer, for example for a sanitizer that reports the fault.
void restore_stderr() noexcept;

}  // namespace mn
