/// Finds out whether what runs on each minibatch makes collective calls, as every rank must then.
#pragma once

#include <cstdint>
#include <string>

#include <mn/comm/communicator.hpp>

namespace mn {

/// Watches a loss function, say, which is not called for a minibatch without samples: the other ranks would wait forever.
class CollectiveUse {
 public:
  /// The result of `call`, whose collective calls are noticed.
  template <class Call>
  auto watch(const Call& call) {
    const std::uint64_t before = collective_calls();
    auto result = call();
    any_ = any_ || collective_calls() != before;
    return result;
  }
  /// Whether there was one.
  [[nodiscard]] bool any() const noexcept { return any_; }
  /// For a rank that leaves the call out. Throws ArgumentError if the others make collective calls in it.
  void check_absence(const std::string& what, std::int64_t epoch) const;

 private:
  bool any_ = false;
};

}  // namespace mn
