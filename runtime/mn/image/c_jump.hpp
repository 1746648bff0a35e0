/// Makes calls into libjpeg and libpng safe, although these C libraries leave a function by longjmp after an error.
///
/// A library's error handler calls leave(), which jumps to the latest guarded(). Then guarded() returns false, and its
/// caller throws. C++ exceptions must not cross the library's C frames, because C frames cannot unwind.
///
/// (1) leave() is called only while guarded() runs its step.
/// (2) No object with a destructor lives in the step or in the error handlers, because the jump would skip the
///     destructor (undefined behavior, [csetjmp.syn]).
/// (3) After guarded() has returned false, its caller uses no local variable that the step has changed, because the
///     variable's value is unspecified.
/// Cost: one setjmp for each step, tens of nanoseconds. A step is therefore a whole image or all of its rows.
/// Source: libjpeg-turbo's example.c, libpng's manual, section III.
#pragma once

#include <cassert>
#include <csetjmp>
#include <cstddef>
#include <cstdio>

namespace mn::data {

/// The target of a jump, which is the latest guarded() call.
struct CJump {
  static constexpr std::size_t kMessageBytes = 200;
  std::jmp_buf target;
  char message[kMessageBytes];
  bool is_guarded = false;  ///< a guarded() call runs its step

  [[noreturn]] void leave() {
    assert(is_guarded);  // leave() is called only by a step
    std::longjmp(target, 1);
  }
  [[noreturn]] void leave(const char* what) {
    std::snprintf(message, sizeof message, "%s", what);
    leave();
  }
};

/// Runs `step`. Returns false if the library failed: the jump has then left the step without any destructor.
template <class Step>
[[nodiscard]] bool guarded(CJump& jump, const Step& step) {
  if (setjmp(jump.target) != 0) {
    jump.is_guarded = false;
    return false;
  }
  jump.is_guarded = true;
  step();
  jump.is_guarded = false;
  return true;
}

}  // namespace mn::data
