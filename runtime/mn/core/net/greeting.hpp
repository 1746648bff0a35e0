/// Two processes at the ends of a connection prove to each other that they have the job's key.
///
///   caller → listener   call: magic, version, from, to, nonce
///   listener → caller   answer: nonce, sealed key, code of (call, answer)
///   caller → listener   proof: code of (call, answer)
///
/// A caller that cannot derive the key may ask for the weak key. Both ends then learn of each other, but exchange no
/// messages.
///
/// 1. Each code (HMAC) covers the nonces of both ends, so no code can be used again.
/// 2. The session key is derived from the whole greeting, so each connection has its own session key.
/// 3. Until an end has checked the peer's code, it sends no messages and trusts no bytes of the peer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <mn/core/net/key.hpp>

namespace mn {

/// The caller and the called process. A call from node to node has the numbers of the nodes; a call between two ranks
/// of a node has the numbers of the ranks.
struct Call {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  bool is_weak = false;  ///< the caller uses Keys::weak_key()
};

inline constexpr std::size_t kMaxGreetingBytes = 4096;

class Greeting {
 public:
  /// The caller's proof that it has the key. Call it after the answer is made or checked.
  [[nodiscard]] std::string proof() const;
  /// The key with which messages are signed. Call it after the answer is made or checked.
  [[nodiscard]] Key session_key() const;

 protected:
  Greeting() = default;

  bool is_weak_ = false;
  std::string call_;
  std::string answer_;
  Key key_{};
};

/// The caller's side of a greeting. Call each function once, in the order of the declarations.
class CallerGreeting : public Greeting {
 public:
  explicit CallerGreeting(Call call);
  [[nodiscard]] const std::string& call() const noexcept { return call_; }
  /// Throws CommError if `answer` does not prove that the listener has the key.
  void check_answer(std::string_view answer, Keys& keys);
};

/// The listener's side of a greeting. Call each function once, in the order of the declarations.
class ListenerGreeting : public Greeting {
 public:
  /// Reads a caller's bytes; no value if they are not a call.
  [[nodiscard]] std::optional<Call> read_call(std::string_view call);
  [[nodiscard]] std::string answer(Keys& keys);
  [[nodiscard]] bool is_proof(std::string_view proof) const { return is_same_code(this->proof(), proof); }
};

}  // namespace mn
