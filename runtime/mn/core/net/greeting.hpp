/// How the two processes at the ends of a connection prove to each other that they have the key.
///
///   caller → listener   call: magic, version, from, to, nonce
///   listener → caller   answer: nonce, sealed key, code of (call, answer)
///   caller → listener   proof: code of (call, answer)
///
/// A caller that does not come to the key may ask for the weak one: then both know of each other, and exchange nothing.
///
/// 1. Each code covers both nonces, so that none can be used again.
/// 2. The key of what follows is derived from the whole greeting: each connection has its own.
/// 3. Neither end sends or believes anything else before it has seen the other's code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <mn/core/net/key.hpp>

namespace mn {

/// Who calls whom. Each names a node between nodes, and a rank of the node within one.
struct Call {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  bool is_weak = false;  ///< by Keys::weak_key()
};

inline constexpr std::size_t kMaxGreetingBytes = 4096;

/// The caller's side. Each function is called once, in this order.
class CallerGreeting {
 public:
  explicit CallerGreeting(Call call);
  [[nodiscard]] const std::string& call() const noexcept { return call_; }
  /// Throws CommError if `answer` does not prove that the other end has the key.
  void check_answer(std::string_view answer, Keys& keys);
  [[nodiscard]] std::string proof() const;
  /// The codes of the connection, once the answer is checked.
  [[nodiscard]] Key session_key() const;

 private:
  bool is_weak_;
  std::string call_;
  std::string answer_;
  Key key_{};
};

/// The listener's side, the same.
class ListenerGreeting {
 public:
  /// std::nullopt if `call` is not a call.
  [[nodiscard]] std::optional<Call> read_call(std::string_view call);
  [[nodiscard]] std::string answer(Keys& keys);
  [[nodiscard]] bool is_proof(std::string_view proof) const;
  [[nodiscard]] Key session_key() const;

 private:
  bool is_weak_ = false;
  std::string call_;
  std::string answer_;
  Key key_{};
};

}  // namespace mn
