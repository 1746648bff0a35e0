/// Runs work that only rank 0 does for all ranks, for instance reading a file. If the work fails on rank 0, every rank
/// throws.
#pragma once

#include <exception>
#include <functional>
#include <string>

#include <mn/comm/communicator.hpp>

namespace mn {

/// Collective: rank 0 runs `work`. If `work` throws, every rank throws an exception of type E with the text of rank 0's
/// exception.
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

}  // namespace mn
