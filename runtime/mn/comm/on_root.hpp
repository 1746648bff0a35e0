/// Runs work of rank 0 for all ranks, such as reading a file. If it fails on rank 0, every rank throws.
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

}  // namespace mn
