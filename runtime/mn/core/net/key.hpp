/// Keys that a job's processes share, and codes, which prove that the sender has the key. Codes are HMAC-SHA-512-256
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
/// Derives a key from `text` alone. The key is only as secret as `text`.
[[nodiscard]] Key key_of_text(std::string_view text);

[[nodiscard]] std::string to_hex(const Key& key);
/// Reads a key that to_hex() wrote. No value unless `hex` has exactly 64 digits.
[[nodiscard]] std::optional<Key> key_of_hex(std::string_view hex);

inline constexpr std::size_t kNonceBytes = 16;
[[nodiscard]] std::string random_nonce();

inline constexpr std::size_t kCodeBytes = 32;
/// The code (HMAC) of the concatenated `parts`.
[[nodiscard]] std::string code_of(const Key& key, std::initializer_list<std::string_view> parts);
/// True if the two codes are equal. The comparison takes a constant time, so the time does not tell where codes differ.
[[nodiscard]] bool is_same_code(std::string_view a, std::string_view b);
/// Derives from `key` a new key for a single purpose. The texts in `parts` name the purpose.
[[nodiscard]] Key derive_key(const Key& key, std::initializer_list<std::string_view> parts);

/// A pair of X25519 keys. After two processes have exchanged their open halves, both can compute the same common key,
/// and an observer of the open halves cannot.
struct KeyPair {
  Key secret;
  Key open;
};
[[nodiscard]] KeyPair new_key_pair();
/// The common key that the owners of both pairs compute. No value if `theirs` is not an open half.
[[nodiscard]] std::optional<Key> common_key(const KeyPair& own, const Key& theirs);

class Keys {
 public:
  /// The listener's key, and the key's sealed form, which only authorized callers can open.
  struct Offer {
    Key key;
    std::string sealed;
  };

  Keys() = default;
  virtual ~Keys() = default;
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;

  /// For the listener: makes the key of a connection. Throws CommError.
  [[nodiscard]] virtual Offer offer() = 0;
  /// For the caller: opens the listener's sealed offer and returns its key. Throws CommError with the reason if it
  /// can't.
  [[nodiscard]] virtual Key accept(const std::string& sealed) = 0;
  /// A key for two ends that have no better key; no value if there is none. Strangers may guess this key, so the two
  /// ends may only learn of each other.
  [[nodiscard]] virtual std::optional<Key> weak_key() const { return std::nullopt; }
  /// A text for people that tells where the key comes from, for example "is random, …".
  [[nodiscard]] virtual std::string origin() = 0;
  /// A text for people that tells why an end may have only the weak key.
  [[nodiscard]] virtual std::string why_weak() { return ""; }
};

/// A key that both ends already have.
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
