/// The stderr of a process that ends: its last line is ours.
#pragma once

#include <string_view>

namespace mn {

/// Writes `line` to stderr, up to 4096 bytes in a single write, also after silence_stderr(); gives up if nobody reads a
/// full pipe for a second. Signal handlers may call it.
void write_stderr(std::string_view line) noexcept;

/// From now on only write_stderr() reaches stderr: MPI explains its own abort, and lost connections, in pages of text,
/// which would hide the line that says why. For a process that is about to end; not undone.
void silence_stderr() noexcept;

}  // namespace mn
