/// Makes a chosen call on files fail, or end the process, and records what calls change: a program that compiles
/// failing_calls.cpp, or has it preloaded (tests/faults/preload.cpp), has its own open(), pwrite(), fsync(), close(),
/// rename(), mkdir(), remove() and the like, which count the calls on a folder and on what is below it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace mn::test {

/// What the chosen call does.
enum class CallFault {
  kKill,   ///< SIGKILL to this process, before the call
  kError,  ///< fails with an errno
  kShort,  ///< a write writes half of what it is given; other calls are as always
  kNone,   ///< as always: calls are counted
};

/// Calls that name `folder` or a path below it, or a file opened there, are counted from 0; call number `at` has the
/// fault, and so have all later ones if `from_then_on`.
void fail_call(const std::filesystem::path& folder, std::int64_t at, CallFault fault, int error = 0,
               bool from_then_on = false);
/// No more faults. Returns the number of calls since fail_call().
std::int64_t stop_failing();

/// From now on lstat() of paths with this end, and openat() of such folders, fail with this errno, as a file server's
/// may; empty: none. They do not count as calls.
void fail_looks(const std::string& end_of_path, int error);

/// The next `times` calls of open() of paths with this end fail with this errno. They do not count as calls.
void fail_opens(const std::string& end_of_path, int times, int error);

/// From now on renameat2() fails, as on file systems that cannot exchange names.
void refuse_exchanges(bool refuse);

/// After fail_call(): writes a line to `fd` for each call that succeeds and matters after a power cut, with fields
/// between tabs: nanoseconds of the monotonic clock, then
///   create ID PATH | open ID PATH   a descriptor, by a number that is not used again
///   write ID OFFSET HEX | truncate ID LENGTH | sync ID
///   mkdir PATH | remove PATH | symlink TARGET PATH | rename FROM TO | exchange ONE OTHER
void record_calls(int fd);

}  // namespace mn::test
