/// Calls a function before an operator of libtorch uses the elements of a parameter.
///
/// A sharded parameter has no memory while unused; the ranks gather the elements before the next use. Models need no
/// change: a watched parameter has an extra dispatch key. libtorch calls the key's fallback before the kernel of each
/// operator with the parameter, or a view of the parameter, as an argument. Backward's uses of saved tensors count too.
/// (1) Only the parameter and views of the parameter have the key, not the results of operators.
/// (2) Operators that read no element (detach(), for instance) call nothing.
/// Cost: about a microsecond for each operator with a watched argument.
#pragma once

#include <functional>
#include <memory>

#include <ATen/core/Tensor.h>

namespace mn {

/// While an object lives, operators that use the parameter are watched.
class ParameterUse {
 public:
  struct Kind {
    bool writes;    ///< the operator changes the elements
    bool is_first;  ///< no earlier argument is watched
  };
  using Watcher = std::function<void(Kind)>;

  /// Replaces the memory of `parameter` by a new storage without memory, until set_memory(). `watcher` runs on the
  /// operator's thread. If `watcher` throws, the operator does not run.
  ParameterUse(const at::Tensor& parameter, Watcher watcher);
  ~ParameterUse();
  ParameterUse(const ParameterUse&) = delete;
  ParameterUse& operator=(const ParameterUse&) = delete;

  /// From now on the parameter's elements lie in `memory`: one dimension, equally many elements, kept alive until the
  /// next call. An undefined tensor leaves the parameter without memory. Tensors saved by autograd share the storage
  /// and follow. No version counter changes.
  void set_memory(const at::Tensor& memory);

 private:
  at::Tensor parameter_;
  c10::Storage storage_;
};

}  // namespace mn
