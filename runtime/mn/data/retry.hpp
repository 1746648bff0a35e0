/// Repeats reads from a file server that is in trouble for a short time.
#pragma once

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>

#include <mn/core/error.hpp>

namespace mn::data {

inline constexpr std::array kRetryPauses = {std::chrono::milliseconds(100), std::chrono::milliseconds(500),
                                            std::chrono::milliseconds(2000)};

/// Whether the error comes from a temporary failure of a file server or network.
[[nodiscard]] inline bool may_pass(const FileError& error) noexcept {
  return error.error_number() == EIO || error.error_number() == ESTALE || error.error_number() == ETIMEDOUT;
}

/// Returns the result of read(). After an error for which may_pass() is true, waits for the next of kRetryPauses, calls
/// recover(), and calls read() again. If read() fails after the last pause, throws its error. `pauses` counts the
/// pauses. Reads from one server may share the count; together they then wait at most 2.6 s.
template <class Read, class Recover>
decltype(auto) with_retries(const Read& read, const Recover& recover, std::size_t& pauses) {
  while (true) {
    try {
      return read();
    } catch (const FileError& error) {
      if (!may_pass(error)) throw;
      if (pauses == kRetryPauses.size()) {
        throw FileError(std::string(error.what()) + ", still after 2.6 s: see to the file server",
                        error.error_number());
      }
    }
    std::this_thread::sleep_for(kRetryPauses[pauses++]);
    recover();
  }
}

template <class Read, class Recover>
decltype(auto) with_retries(const Read& read, const Recover& recover) {
  std::size_t pauses = 0;
  return with_retries(read, recover, pauses);
}

}  // namespace mn::data
