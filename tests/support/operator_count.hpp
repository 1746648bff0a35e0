/// Counts the operators that libtorch's dispatcher runs, and the bytes that they move: a stand-in for time on machines
/// without a GPU.
///
/// 1. An operator counts if it writes memory, and if no operator that it calls counts. Operators that one kernel of a
///    GPU computes count as one, whatever they call on the device here.
/// 2. Each tensor that an operator reads counts once, and each tensor that it writes counts once more. Elements that
///    repeat (stride 0) count once. A kernel that reads its input twice, as batch norm's on GPUs, moves more.
/// 3. Bytes of products, convolutions and attention say little about their time: passes() leaves them out.
#pragma once

#include <map>
#include <string>

#include <ATen/record_function.h>
#include <c10/core/DeviceType.h>

namespace mn::test {

struct OperatorTraffic {
  long calls = 0;
  double bytes = 0;
};

/// While an OperatorCount lives, it counts the operators of the calling thread, and those that backward's threads run
/// for this thread. Only one may live at a time.
class OperatorCount {
 public:
  /// Counts operators that take or make a tensor on `device`.
  explicit OperatorCount(c10::DeviceType device = c10::kCPU);
  ~OperatorCount();
  OperatorCount(const OperatorCount&) = delete;
  OperatorCount& operator=(const OperatorCount&) = delete;

  /// All operators together.
  [[nodiscard]] OperatorTraffic all() const;
  /// All operators but products of matrices, convolutions and attention.
  [[nodiscard]] OperatorTraffic passes() const;
  /// Lists all operators: "2 aten::add (32 bytes), …".
  [[nodiscard]] std::string text() const;

 private:
  at::CallbackHandle handle_;
};

}  // namespace mn::test
