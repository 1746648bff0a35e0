/// A segment of a model's graph as two libraries, forward and backward, which autograd sees as one node.
///
/// (1) Backward takes inputs and outputs of forward, and gradients of outputs. Of inputs autograd saves the tensors
///     themselves; therefore parameters take no memory in addition, and sharding may free them between the passes.
/// (2) Before each call, tensors get the dtypes' and sizes' check and the strides with which the graphs were compiled;
///     the libraries check nothing.
/// (3) The libraries draw random numbers from seeds alone. Each forward draws its seeds from the generator of the
///     device, so a restored generator gives the same numbers, and backward can compute them again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/nn/compiled/library.hpp>

namespace mn::compiled {

using Size = std::variant<std::int64_t, std::string>;

/// What a library takes for granted of a tensor.
struct Form {
  at::ScalarType dtype;
  std::vector<Size> sizes;  ///< a name: any size, the same wherever the name stands
  /// The dimensions from the slowest to the fastest; empty: their order.
  std::vector<std::int64_t> order;
};

/// An argument of the backward library that the forward call had.
struct Saved {
  bool is_input = false;  ///< an input of forward; otherwise an output
  std::size_t index = 0;
  std::vector<std::int64_t> order;
};

/// The gradient of an output, as the backward library takes it.
struct Tangent {
  std::size_t output = 0;
  Form form;
};

/// A result of the backward library.
struct Gradient {
  std::size_t input = 0;              ///< the input of forward whose gradient it is
  std::vector<std::size_t> tangents;  ///< numbers of the tangents on which it depends
};

struct SegmentForm {
  std::string name;  ///< for messages
  std::vector<Form> inputs;
  std::int64_t seeds = 0;            ///< seeds of a call; with any, they are forward's last input
  std::size_t outputs = 0;           ///< number of forward's outputs that the caller gets
  std::vector<std::size_t> trained;  ///< inputs that may require gradients
  std::vector<Saved> saved;
  std::vector<Tangent> tangents;
  std::vector<Gradient> gradients;  ///< what backward returns, in order
};

class Segment : public std::enable_shared_from_this<Segment> {
 public:
  /// `backward` may be null.
  Segment(SegmentForm form, std::unique_ptr<Library> forward, std::unique_ptr<Library> backward);

  /// Returns the outputs. Throws ArgumentError if the inputs' forms are wrong, or an input requires a gradient that
  /// backward does not return.
  [[nodiscard]] std::vector<at::Tensor> run(std::vector<at::Tensor> inputs) const;

 private:
  friend class SegmentCall;
  void check(const std::vector<at::Tensor>& inputs) const;
  /// The outputs, and what backward needs beside them. Autograd does not see the call.
  [[nodiscard]] std::vector<at::Tensor> compute(std::vector<at::Tensor> arguments) const;

  SegmentForm form_;
  std::unique_ptr<Library> forward_, backward_;
};

}  // namespace mn::compiled
