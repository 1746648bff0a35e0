/// Makes a chosen call on files fail, or end the process: a program that compiles failing_calls.cpp has its own open(),
/// pwrite(), fsync(), close(), rename(), mkdir() and remove(), which count the calls under a folder.
#pragma once

#include <cstdint>
#include <filesystem>

namespace mn::test {

/// What the chosen call does.
enum class CallFault {
  kKill,   ///< SIGKILL to this process, before the call
  kError,  ///< fails with an errno
  kShort,  ///< a write writes half of what it is given; other calls are as always
};

/// Calls that name a path below `folder`, or a file opened there, are counted from 0; call number `at` has the fault,
/// and so have all later ones if `from_then_on`.
void fail_call(const std::filesystem::path& folder, std::int64_t at, CallFault fault, int error = 0,
               bool from_then_on = false);
/// No more faults. Returns the number of calls since fail_call().
std::int64_t stop_failing();

}  // namespace mn::test
