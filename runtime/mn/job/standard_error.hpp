/// The stderr of a process that ends: its last line is ours.
///
/// The rank that reports the end of the job calls these, from any thread and from signal handlers.
///
/// Invariants:
/// 1. A line of up to PIPE_BUF bytes is one write(2), so lines of several ranks do not mix.
/// 2. A full pipe that nobody reads holds a process up for a second at most.
/// 3. What the rank that reports has written is shown before its process ends.
/// 4. Between silence_stderr() and restore_stderr() only write_stderr() reaches the old stderr; descriptor 2 goes to
///    /dev/null.
///
/// Source: pipe(7), "PIPE_BUF"; signal-safety(7).
#pragma once

#include <string_view>

namespace mn {

/// Writes `line` to stderr, also after silence_stderr(); gives up where a pipe is full for a second.
void write_stderr(std::string_view line) noexcept;

/// Returns when srun has shown what was written: where a rank was killed it leaves what reaches it after the last
/// task's end, and TCP may hold a line back until the one before it is acknowledged (RFC 1122, 4.2.3.2: 200 ms in
/// practice).
void wait_until_shown() noexcept;

/// For a process that is about to end: MPI explains its own abort, and lost connections, in pages of text, which would
/// hide the line that says why.
void silence_stderr() noexcept;

/// Undoes that for somebody who has more to say of this process's end, such as a sanitizer.
void restore_stderr() noexcept;

}  // namespace mn
