/// Calls a function before an operator of libtorch uses the elements of a parameter.
///
/// A sharded parameter has no memory while unused; the ranks gather the elements before the next use. Models need no
/// change: a watched parameter has an extra dispatch key. libtorch calls the key's fallback before the kernel of each
/// operator with the parameter, or a view of the parameter, as an argument. Backward's uses of saved tensors count too.
/// (1) Only the parameter and views of the parameter have the key, not the results of operators.
/// (2) Operators that read no element (detach(), for instance) call nothing.
/// (3) Autocast's 16-bit copies of a matrix are watched, too, and have no memory while unused. Otherwise the copies of
///     all layers would live from forward to backward, because autograd saves them.
/// Cost: about a microsecond for each operator with a watched argument.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include <ATen/core/Tensor.h>

namespace mn {

/// While an object lives, operators that use the parameter are watched.
class ParameterUse {
 public:
  struct Kind {
    bool writes;           ///< the operator changes the elements
    bool is_first;         ///< no earlier argument is watched
    c10::ScalarType type;  ///< the parameter's type, or the type of autocast's copy (3)
    bool copies = false;   ///< autocast makes a copy in `type`, which no operator uses yet
  };
  /// With Kind::copies: returns true if the copy has no memory until set_memory(), false if autocast copies the
  /// elements.
  using Watcher = std::function<bool(Kind)>;

  /// True if autocast's copies of the parameter are watched (3): a float32 tensor of at least two dimensions.
  [[nodiscard]] static bool watches_copies(const at::Tensor& parameter);

  /// Replaces the memory of `parameter` by a new storage without memory, until set_memory(). `watcher` runs on the
  /// operator's thread. If `watcher` throws, the operator does not run.
  ParameterUse(const at::Tensor& parameter, Watcher watcher);
  /// If the parameter has memory, it becomes a usual tensor. Otherwise its values are lost, and every use throws a
  /// UsageError.
  ~ParameterUse();
  ParameterUse(const ParameterUse&) = delete;
  ParameterUse& operator=(const ParameterUse&) = delete;

  /// From now on the elements of the parameter, or of its copies in the 16-bit `type`, lie in `memory`: one dimension,
  /// equally many elements, kept alive until the next call. An undefined tensor leaves them without memory. Tensors
  /// saved by autograd share the storage and follow. No version counter changes.
  void set_memory(c10::ScalarType type, const at::Tensor& memory);

 private:
  at::Tensor parameter_;
  std::map<c10::ScalarType, c10::Storage> storages_;  // of the parameter and of the copies (3)
};

}  // namespace mn
