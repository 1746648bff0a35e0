/// Calls a function before an operator of libtorch uses the elements of a parameter.
///
/// A sharded parameter's memory is freed while nothing uses the parameter, and its elements are gathered before the next
/// use. No part of a model has to say when: each watched parameter has a dispatch key of its own, and libtorch calls the
/// fallback of this key before the kernel of any operator that has the parameter, or a view of it, as an argument. So
/// the fallback also sees the operators of backward, which use the tensors that the forward pass has saved.
/// (1) Results of operators do not have the key; only views of the parameter have it.
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
    bool is_first;  ///< no argument before this one is watched
  };
  using Watcher = std::function<void(Kind)>;

  /// Gives `parameter` a storage of its own, in place of its memory; set_memory() sets its address. `watcher` may
  /// throw; the operator is then not called. It is called on the thread of the operator.
  ParameterUse(const at::Tensor& parameter, Watcher watcher);
  ~ParameterUse();
  ParameterUse(const ParameterUse&) = delete;
  ParameterUse& operator=(const ParameterUse&) = delete;

  /// From now on the parameter's elements lie in `memory`, a tensor of one dimension with as many elements, which lives
  /// until the next call. With an undefined tensor the parameter has no memory. Tensors that autograd has saved follow,
  /// because they share the storage; no version counter changes.
  void set_memory(const at::Tensor& memory);

 private:
  at::Tensor parameter_;
  c10::Storage storage_;
};

}  // namespace mn
