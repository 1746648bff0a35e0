/// Runs work of every rank that may fail on some of them, for example the reading of each rank's part of a file.
#pragma once

#include <exception>
#include <functional>
#include <string>

#include <mn/comm/communicator.hpp>

namespace mn {

/// Collective: every rank runs `work`. If `work` throws on some ranks, every rank throws an E with the text of the
/// first of them.
template <class E, class... Args>
void on_every_rank(Communicator& comm, const std::function<void()>& work, Args... args) {
  std::string error;
  try {
    work();
  } catch (const std::exception& thrown) {
    error = std::string("!") + thrown.what();
  }
  for (const std::string& text : comm.allgather_obj(error)) {
    if (!text.empty()) throw E(text.substr(1), args...);
  }
}

}  // namespace mn
