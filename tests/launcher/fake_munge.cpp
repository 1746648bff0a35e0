// Stands in for libmunge.so.2 and munge's daemon: a credential holds the maker, the permitted reader and the text.
#include "fake_munge.hpp"

#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int kEverybody = -1;
constexpr int kUnauthorized = 18;
constexpr int kNoDaemon = 6;

struct Context {
  int reader = kEverybody;
};

}  // namespace

extern "C" {

thread_local int mn_fake_munge_user = kNoMunge;

void* munge_ctx_create() { return new Context; }
void munge_ctx_destroy(void* context) { delete static_cast<Context*>(context); }

int munge_ctx_set(void* context, int option, ...) {
  va_list arguments;
  va_start(arguments, option);
  static_cast<Context*>(context)->reader = va_arg(arguments, int);
  va_end(arguments);
  return 0;
}

int munge_encode(char** credential, void* context, const void* bytes, int length) {
  if (mn_fake_munge_user == kNoMunge) return kNoDaemon;
  std::string text =
      std::to_string(mn_fake_munge_user) + " " + std::to_string(static_cast<Context*>(context)->reader) + " ";
  for (int i = 0; i < length; ++i) {
    const auto byte = static_cast<const unsigned char*>(bytes)[i];
    text += {static_cast<char>('a' + byte / 16), static_cast<char>('a' + byte % 16)};
  }
  *credential = strdup(text.c_str());
  return 0;
}

int munge_decode(const char* credential, void*, void** bytes, int* length, unsigned* uid, unsigned* gid) {
  if (mn_fake_munge_user == kNoMunge) return kNoDaemon;
  char* rest = nullptr;
  *uid = *gid = static_cast<unsigned>(std::strtol(credential, &rest, 10));
  const auto reader = static_cast<int>(std::strtol(rest, &rest, 10));
  if (reader != kEverybody && reader != mn_fake_munge_user) return kUnauthorized;
  const std::string text = rest + 1;
  *length = static_cast<int>(text.size() / 2);
  *bytes = std::malloc(text.size() / 2 + 1);
  for (int i = 0; i < *length; ++i) {
    const char* digits = text.data() + 2 * i;
    static_cast<char*>(*bytes)[i] = static_cast<char>((digits[0] - 'a') * 16 + digits[1] - 'a');
  }
  return 0;
}

const char* munge_strerror(int status) { return status == kUnauthorized ? "Unauthorized credential" : "no daemon"; }
}
