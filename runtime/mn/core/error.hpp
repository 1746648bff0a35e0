/// The errors that mn throws. Each message says what was being done, with what, and what to do about it;
/// rank and host are added where the error is reported (mn::Job).
#pragma once

#include <stdexcept>
#include <string>

#include <mn/core/exit_codes.hpp>

namespace mn {

/// Root of all of mn's own exceptions. Thrown on one rank alone, it ends the whole job.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  /// Exit status of a program that this error ends.
  [[nodiscard]] virtual int exit_code() const noexcept { return 1; }
  /// True if every rank of the job throws the same error at the same point: rank 0 alone then reports it.
  [[nodiscard]] virtual bool on_all_ranks() const noexcept { return false; }
};

/// A bad option, argument, file or environment that every rank sees alike.
class UsageError : public Error {
 public:
  using Error::Error;
  [[nodiscard]] int exit_code() const noexcept override { return kExitUsage; }
  [[nodiscard]] bool on_all_ranks() const noexcept override { return true; }
};

/// A call with arguments that its contract forbids (a root out of range, a wrong length), found before anything is
/// sent.
class ArgumentError : public Error {
 public:
  /// `on_all_ranks`: every rank throws it.
  explicit ArgumentError(const std::string& what, bool on_all_ranks = false)
      : Error(what), on_all_ranks_(on_all_ranks) {}
  [[nodiscard]] bool on_all_ranks() const noexcept override { return on_all_ranks_; }

 private:
  bool on_all_ranks_;
};

/// Data that is absent, damaged or not what it claims to be.
class DataError : public Error {
 public:
  /// `on_all_ranks`: every rank throws it.
  explicit DataError(const std::string& what, bool on_all_ranks = false) : Error(what), on_all_ranks_(on_all_ranks) {}
  [[nodiscard]] bool on_all_ranks() const noexcept override { return on_all_ranks_; }

 private:
  bool on_all_ranks_;
};

/// The system's own reason why a file could not be opened, read or written.
class FileError : public DataError {
 public:
  /// `error_number`: the errno of the call that failed.
  FileError(const std::string& what, int error_number) : DataError(what), error_number_(error_number) {}
  /// That errno.
  [[nodiscard]] int error_number() const noexcept { return error_number_; }

 private:
  int error_number_;
};

/// MPI, CUDA, NCCL or a socket failed. The communicator concerned can only be destroyed.
class CommError : public Error {
 public:
  using Error::Error;
};

/// "what: strerror(errno)", for calls that set errno.
[[nodiscard]] std::string with_errno(const std::string& what, int error_number);

}  // namespace mn
