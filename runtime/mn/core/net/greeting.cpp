#include <mn/core/net/greeting.hpp>

#include <cassert>

#include <mn/core/error.hpp>
#include <mn/core/net/wire.hpp>

namespace mn {
namespace {

constexpr std::string_view kMagic = "mn's greeting no. 1\n";
constexpr std::string_view kWeakMagic = "mn's greeting, weak\n";
static_assert(kMagic.size() == kWeakMagic.size());
constexpr std::size_t kCallBytes = kMagic.size() + 2 * kNumberBytes + kNonceBytes;

Key weak_key_of(const Keys& keys) {
  if (const auto key = keys.weak_key()) return *key;
  throw CommError("it asks for a key that this job does not have");
}

}  // namespace

std::string Greeting::proof() const {
  assert(!answer_.empty());  // the answer was made or checked
  return code_of(key_, {"proof", call_, answer_});
}

Key Greeting::session_key() const { return derive_key(key_, {"session", call_, answer_}); }

CallerGreeting::CallerGreeting(Call call) {
  is_weak_ = call.is_weak;
  call_ = is_weak_ ? kWeakMagic : kMagic;
  append_number(call_, call.from);
  append_number(call_, call.to);
  call_ += random_nonce();
}

void CallerGreeting::check_answer(std::string_view answer, Keys& keys) {
  if (answer.size() < kNonceBytes + kCodeBytes) throw CommError("it is not mn, or is of another version");
  const std::string_view said = answer.substr(0, answer.size() - kCodeBytes);
  // The code is checked with the key that accept() returns. Therefore accept() gets unverified bytes.
  key_ = is_weak_ ? weak_key_of(keys) : keys.accept(std::string(said.substr(kNonceBytes)));
  if (!is_same_code(code_of(key_, {"answer", call_, said}), answer.substr(said.size()))) {
    throw CommError("it is not of this job");
  }
  answer_ = answer;
}

std::optional<Call> ListenerGreeting::read_call(std::string_view call) {
  is_weak_ = call.starts_with(kWeakMagic);
  if (call.size() != kCallBytes || !(is_weak_ || call.starts_with(kMagic))) return std::nullopt;
  call_ = call;
  const std::string_view numbers = call.substr(kMagic.size());
  return Call{number_in(numbers), number_in(numbers.substr(kNumberBytes)), is_weak_};
}

std::string ListenerGreeting::answer(Keys& keys) {
  // The code covers the call with its nonce, so a recorded answer does not verify.
  const Keys::Offer offer = is_weak_ ? Keys::Offer{weak_key_of(keys), ""} : keys.offer();
  key_ = offer.key;
  answer_ = random_nonce() + offer.sealed;
  answer_ += code_of(key_, {"answer", call_, answer_});
  return answer_;
}

}  // namespace mn
