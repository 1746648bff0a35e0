/// Runs work of rank 0 for all ranks, for example the reading of a file.
#pragma once

#include <exception>
#include <functional>
#include <string>

#include <mn/comm/communicator.hpp>

namespace mn {

/// Collective: rank 0 runs `work`. If `work` throws, every rank throws an E with the text of the exception.
template <class E, class... Args>
void on_root(Communicator& comm, const std::function<void()>& work, Args... args) {
  std::string error;
  if (comm.rank() == 0) {
    try {
      work();
    } catch (const std::exception& thrown) {
      error = std::string("!") + thrown.what();
    }
  }
  error = comm.bcast_obj(error);
  if (!error.empty()) throw E(error.substr(1), args...);
}

/// Work that rank 0 does in several parts, between which all ranks communicate. After an error the other parts are
/// skipped, and all ranks go on to agree().
class RootWork {
 public:
  explicit RootWork(Communicator& comm) : comm_(comm) {}

  /// Local: rank 0 runs `work`, and notes its exception.
  void attempt(const std::function<void()>& work) {
    if (comm_.rank() != 0 || error_) return;
    try {
      work();
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  /// Collective: if a part has failed, every rank throws an exception of type E, as on_root() does.
  template <class E, class... Args>
  void agree(Args... args) {
    const auto rethrow = [this] {
      if (error_) std::rethrow_exception(error_);
    };
    on_root<E>(comm_, rethrow, args...);
  }

 private:
  Communicator& comm_;
  std::exception_ptr error_;
};

}  // namespace mn
