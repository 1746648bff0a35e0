/// Keys of a job's processes, and the codes that prove that a message comes from one who has the key: HMAC-SHA-512-256
/// (RFC 2104), from libsodium.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace mn {

using Key = std::array<unsigned char, 32>;

[[nodiscard]] Key random_key();
/// The same wherever `text` is the same, and as secret as `text`.
[[nodiscard]] Key key_of_text(std::string_view text);

[[nodiscard]] std::string to_hex(const Key& key);
/// No value if `hex` is anything but the 64 digits of to_hex().
[[nodiscard]] std::optional<Key> key_of_hex(std::string_view hex);

inline constexpr std::size_t kNonceBytes = 16;
/// kNonceBytes that nobody can guess.
[[nodiscard]] std::string random_nonce();

inline constexpr std::size_t kCodeBytes = 32;
/// The code of the concatenated `parts`, kCodeBytes long.
[[nodiscard]] std::string code_of(const Key& key, std::initializer_list<std::string_view> parts);
/// Compares in a time that does not depend on where the codes differ.
[[nodiscard]] bool is_same_code(std::string_view a, std::string_view b);
/// A key for one purpose, which `parts` name.
[[nodiscard]] Key derive_key(const Key& key, std::initializer_list<std::string_view> parts);

/// For two processes that know nothing but each other's open half: both get the same key, and nobody who sees only the
/// open halves does (X25519).
struct KeyPair {
  Key secret;
  Key open;
};
[[nodiscard]] KeyPair new_key_pair();
/// No value if `theirs` is not an open half.
[[nodiscard]] std::optional<Key> common_key(const KeyPair& own, const Key& theirs);

/// How the two ends of a connection come to one key.
class Keys {
 public:
  /// The listening end's key, and what tells it to those callers alone who may know it.
  struct Offer {
    Key key;
    std::string sealed;
  };

  Keys() = default;
  virtual ~Keys() = default;
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;

  /// For a connection that this process accepts. Throws CommError.
  [[nodiscard]] virtual Offer offer() = 0;
  /// For a connection that this process makes: the key behind what the other end offers. Throws CommError that says
  /// why there is none.
  [[nodiscard]] virtual Key accept(const std::string& sealed) = 0;
  /// A key by which two ends without a better one tell each other that they are of one job, and no more: others may
  /// guess it. No value: they do not.
  [[nodiscard]] virtual std::optional<Key> weak_key() const { return std::nullopt; }
  /// Where the key is from, for people: "is random, …".
  [[nodiscard]] virtual std::string origin() = 0;
  /// For people: why an end that has the weak key alone may have no other.
  [[nodiscard]] virtual std::string why_weak() { return ""; }
};

/// A key that both ends have already.
class SharedKey : public Keys {
 public:
  explicit SharedKey(const Key& key) : key_(key) {}
  [[nodiscard]] Offer offer() override { return {key_, ""}; }
  [[nodiscard]] Key accept(const std::string& sealed) override;
  [[nodiscard]] std::string origin() override { return "is random, and came through the launcher's server"; }

 private:
  Key key_;
};

}  // namespace mn
