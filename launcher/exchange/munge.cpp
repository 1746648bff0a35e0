#include "exchange/munge.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>

#include <dlfcn.h>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>

namespace mn::launcher {
namespace {

struct Symbol {
  void* address;
  template <typename Function>
  operator Function*() const {
    return reinterpret_cast<Function*>(address);
  }
};

/// The functions of libmunge, as <munge.h> declares them since version 0.5; null if libmunge is missing.
struct MungeLibrary {
  using Context = void*;

  void* const handle = dlopen("libmunge.so.2", RTLD_NOW | RTLD_LOCAL);
  Context (*const create_context)() = symbol("munge_ctx_create");
  void (*const destroy_context)(Context) = symbol("munge_ctx_destroy");
  int (*const set_option)(Context, int option, ...) = symbol("munge_ctx_set");
  int (*const encode)(char** credential, Context, const void* bytes, int length) = symbol("munge_encode");
  int (*const decode)(const char* credential, Context, void** bytes, int* length, uid_t*,
                      gid_t*) = symbol("munge_decode");
  const char* (*const error_text)(int) = symbol("munge_strerror");

 private:
  [[nodiscard]] Symbol symbol(const char* name) const { return {handle == nullptr ? nullptr : dlsym(handle, name)}; }
};

constexpr int kUidRestriction = 9;  // MUNGE_OPT_UID_RESTRICTION

/// The credential is genuine, but the nodes' clocks differ, or this host has decoded it before. That is harmless,
/// because the greeting proves that the peer is alive.
constexpr int kExpired = 15, kRewound = 16, kReplayed = 17;

const MungeLibrary* munge_library() {
  static const MungeLibrary library;
  return library.handle == nullptr ? nullptr : &library;
}

/// Encodes `text` as a munge credential for the user `reader`, or for every user. Empty if munge does not answer.
std::string seal(std::string_view text, std::optional<uid_t> reader) {
  const MungeLibrary* munge = munge_library();
  if (munge == nullptr) return "";
  const std::unique_ptr<void, void (*)(void*)> context(munge->create_context(), munge->destroy_context);
  if (!context || (reader && munge->set_option(context.get(), kUidRestriction, *reader) != 0)) return "";
  char* credential = nullptr;
  const int error = munge->encode(&credential, context.get(), text.data(), static_cast<int>(text.size()));
  const std::unique_ptr<char, decltype(&std::free)> owner(credential, &std::free);
  return error == 0 && credential != nullptr ? credential : "";
}

struct OpenedCredential {
  std::string text;
  uid_t maker = 0;
};

OpenedCredential open_seal(const std::string& sealed) {
  const MungeLibrary* munge = munge_library();
  if (munge == nullptr) throw CommError("it wants munge's authentication, but there is no libmunge.so.2 here");
  void* bytes = nullptr;
  int length = 0;
  uid_t maker = 0;
  gid_t group = 0;
  const int error = munge->decode(sealed.c_str(), nullptr, &bytes, &length, &maker, &group);
  const std::unique_ptr<void, decltype(&std::free)> owner(bytes, &std::free);
  const bool genuine = error == 0 || error == kExpired || error == kRewound || error == kReplayed;
  if (!genuine) throw CommError(std::string("munge does not open its credential: ") + munge->error_text(error));
  return {{static_cast<const char*>(bytes), static_cast<std::size_t>(length)}, maker};
}

/// This user's id, as munged sees it. In a container with mapped users, geteuid() returns a different id.
std::optional<uid_t> own_user() {
  const std::string credential = seal("user", std::nullopt);
  try {
    return credential.empty() ? std::nullopt : std::optional(open_seal(credential).maker);
  } catch (const CommError&) {
    return std::nullopt;
  }
}

std::string_view text_of(const Key& key) { return {reinterpret_cast<const char*>(key.data()), key.size()}; }

}  // namespace

Keys::Offer MungeKeys::offer() {
  if (!own_) {
    const Key key = random_key();
    user_ = own_user();
    const std::string sealed = user_ ? seal(text_of(key), user_) : "";
    own_ = sealed.empty() ? Offer{fallback_, ""} : Offer{derive_key(key, {job_}), sealed};
  }
  return *own_;
}

Key MungeKeys::accept(const std::string& sealed) {
  static_cast<void>(offer());  // asks munge for the user id
  if (!sealed.empty()) {
    const OpenedCredential opened = open_seal(sealed);
    if (opened.maker != user_) throw CommError("a process of user " + std::to_string(opened.maker) + " answers there");
    Key key;
    if (opened.text.size() != key.size()) throw CommError("its munge credential holds no key");
    std::ranges::copy(opened.text, key.begin());
    // Two jobs of one user can open each other's credentials, and must have different keys.
    return derive_key(key, {job_});
  }
  // Otherwise an attacker could force the weak key by the claim that munge does not answer there.
  if (!offer().sealed.empty()) throw CommError("munge does not answer there, but does here");
  return fallback_;
}

std::string MungeKeys::why_weak() {
  if (offer().sealed.empty()) {
    return "munge does not answer on " + host_name() +
           ", and does there; start munged, or bind /run/munge into the container";
  }
  return "munge answers on " + host_name() +
         "; see that it does there, with one key and one number of the user (munge -n | unmunge; id -u)";
}

std::string MungeKeys::origin() {
  if (!offer().sealed.empty()) return "is sealed by munge";
  return is_secret_
             ? "comes from MN_LAUNCH_KEY"
             : "is made of the job's names, which other users of the cluster can guess, as munge does not answer; "
               "before srun, export MN_LAUNCH_KEY=$(openssl rand -hex 32)";
}

}  // namespace mn::launcher
