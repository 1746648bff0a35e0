#include <mn/core/net/key.hpp>

#include <algorithm>
#include <span>

#include <sodium.h>

#include <mn/core/error.hpp>
#include <mn/core/kernel_random.hpp>
#include <mn/core/text.hpp>

namespace mn {
namespace {

static_assert(kCodeBytes == crypto_auth_hmacsha512256_BYTES);
static_assert(sizeof(Key) == crypto_auth_hmacsha512256_KEYBYTES);
static_assert(sizeof(Key) == crypto_scalarmult_BYTES && sizeof(Key) == crypto_scalarmult_SCALARBYTES);

void prepare_sodium() {
  static const bool ready = sodium_init() >= 0;
  if (!ready) throw Error("libsodium does not start: the system gives it no random numbers");
}

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

}  // namespace

Key random_key() {
  Key key;
  draw_random(std::as_writable_bytes(std::span(key)));
  return key;
}

Key key_of_text(std::string_view text) {
  prepare_sodium();
  Key key;
  crypto_generichash(key.data(), key.size(), bytes_of(text), text.size(), nullptr, 0);
  return key;
}

std::string to_hex(const Key& key) { return mn::to_hex(std::as_bytes(std::span(key))); }

std::optional<Key> key_of_hex(std::string_view hex) {
  Key key;
  std::size_t length = 0;
  const char* end = nullptr;
  if (hex.size() != 2 * key.size()) return std::nullopt;
  if (sodium_hex2bin(key.data(), key.size(), hex.data(), hex.size(), nullptr, &length, &end) != 0) return std::nullopt;
  return length == key.size() && end == hex.data() + hex.size() ? std::optional(key) : std::nullopt;
}

std::string random_nonce() {
  std::string nonce(kNonceBytes, '\0');
  draw_random(std::as_writable_bytes(std::span(nonce)));
  return nonce;
}

std::string code_of(const Key& key, std::initializer_list<std::string_view> parts) {
  prepare_sodium();
  crypto_auth_hmacsha512256_state state;
  crypto_auth_hmacsha512256_init(&state, key.data(), key.size());
  for (const auto part : parts) crypto_auth_hmacsha512256_update(&state, bytes_of(part), part.size());
  std::string code(kCodeBytes, '\0');
  crypto_auth_hmacsha512256_final(&state, reinterpret_cast<unsigned char*>(code.data()));
  return code;
}

bool is_same_code(std::string_view a, std::string_view b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

Key derive_key(const Key& key, std::initializer_list<std::string_view> parts) {
  const std::string code = code_of(key, parts);
  Key derived;
  std::copy(code.begin(), code.end(), derived.begin());
  return derived;
}

KeyPair new_key_pair() {
  KeyPair pair;
  pair.secret = random_key();
  crypto_scalarmult_base(pair.open.data(), pair.secret.data());
  return pair;
}

std::optional<Key> common_key(const KeyPair& own, const Key& theirs) {
  Key point;
  if (crypto_scalarmult(point.data(), own.secret.data(), theirs.data()) != 0) return std::nullopt;
  const auto text = [](const Key& key) { return std::string(reinterpret_cast<const char*>(key.data()), key.size()); };
  // Both ends put the two open halves in the same order, so both derive the same key.
  return derive_key(point, {"common key", text(std::min(own.open, theirs)), text(std::max(own.open, theirs))});
}

Key SharedKey::accept(const std::string& sealed) {
  if (!sealed.empty()) throw CommError("it offers a sealed key, but this job has one already");
  return key_;
}

}  // namespace mn
