/// Calls into C libraries whose errors end in a longjmp: libjpeg and libpng.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdio>

namespace mn::data {

/// Where such an error leads: to the latest guarded() call.
struct CJump {
  static constexpr std::size_t kMessageBytes = 200;
  std::jmp_buf target;
  char message[kMessageBytes];

  [[noreturn]] void leave() { std::longjmp(target, 1); }
  [[noreturn]] void leave(const char* what) {
    std::snprintf(message, sizeof message, "%s", what);
    leave();
  }
};

/// Runs `step`; false if the library failed in it. `step` is left without unwinding, so it must own nothing.
template <class Step>
[[nodiscard]] bool guarded(CJump& jump, const Step& step) {
  if (setjmp(jump.target) != 0) return false;
  step();
  return true;
}

}  // namespace mn::data
