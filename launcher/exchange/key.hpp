/// Keys of a job's launchers, and the codes that prove that a message comes from one who has the key: HMAC-SHA-512-256
/// (RFC 2104), from libsodium.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace mn::launcher {

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

}  // namespace mn::launcher
