/// The errors that mn throws. Each message names the operation, its object and a remedy; mn::Job adds rank and host
/// when it reports the error.
#pragma once

#include <cstring>
#include <stdexcept>
#include <string>

#include <mn/core/exit_codes.hpp>

namespace mn {

/// Base of all of mn's exceptions. An exception that only one rank throws ends the whole job.
class Error : public std::runtime_error {
 public:
  /// `on_all_ranks` is true if every rank of the job throws the same error at the same point.
  explicit Error(const std::string& what, bool on_all_ranks = false)
      : std::runtime_error(what), on_all_ranks_(on_all_ranks) {}
  /// The exit status of a program that this error ends.
  [[nodiscard]] virtual int exit_code() const noexcept { return 1; }
  /// True if every rank throws the error; then only rank 0 reports it.
  [[nodiscard]] virtual bool on_all_ranks() const noexcept { return on_all_ranks_; }

 private:
  bool on_all_ranks_;
};

/// The error for a bad option, argument, file or environment variable that all ranks see.
class UsageError : public Error {
 public:
  /// Makes an error of all ranks: every rank throws the error, and only rank 0 reports the error.
  explicit UsageError(const std::string& what) : Error(what, true) {}
  [[nodiscard]] int exit_code() const noexcept override { return kExitUsage; }
};

/// The error for arguments that a call's contract forbids, for example a root out of range. It is thrown before any
/// message is sent.
class ArgumentError : public Error {
 public:
  using Error::Error;
};

/// The error for data that is missing, damaged or of the wrong kind.
class DataError : public Error {
 public:
  using Error::Error;
};

/// The error for a file that could not be opened, read or written, for a reason that the system gave.
class FileError : public DataError {
 public:
  /// `error_number` is the errno of the call that failed.
  FileError(const std::string& what, int error_number) : DataError(what), error_number_(error_number) {}
  /// The errno of the failed call.
  [[nodiscard]] int error_number() const noexcept { return error_number_; }

 private:
  int error_number_;
};

/// The error for a failure of MPI, CUDA, NCCL or a socket. After this error the communicator can only be destroyed.
class CommError : public Error {
 public:
  using Error::Error;
};

/// The text "WHAT: REASON", where REASON is the system's text for the errno `error_number`.
[[nodiscard]] inline std::string with_errno(const std::string& what, int error_number) {
  return what + ": " + std::strerror(error_number);
}

}  // namespace mn
