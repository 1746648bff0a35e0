/// A minibatch. Its tensors can be found by name and by position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

namespace mn {

/// One field of a minibatch, for instance the images or the labels of all its samples.
struct BatchField {
  std::string name;   ///< name in the dataset's spec
  at::Tensor values;  ///< [samples, …]; if the field is variable, [rows of all samples, …]
  /// Only if samples vary in length: int64 [samples + 1]. Sample i has rows offsets[i] … offsets[i + 1] − 1 of
  /// `values`.
  at::Tensor offsets = {};
  std::int64_t longest = 0;  ///< number of rows of the longest sample of a variable field
};

/// A minibatch on one rank. The minibatches of all ranks in a step are the global minibatch.
struct Batch {
  at::Tensor data;  ///< the first field's values: [samples, …]
  /// The values of the second field, if there are two fields. Labels are int64 [samples].
  at::Tensor target;
  /// Number of samples. May be 0 in the last step of an epoch; then the first dimension of all tensors is 0.
  std::int64_t samples = 0;
  /// [samples] number of each sample in the dataset. Empty if the iterator does not know the numbers.
  std::vector<std::int64_t> indices = {};
  std::vector<BatchField> fields = {};  ///< all fields, with `data` and `target`; empty if the iterator names no fields
  /// The weight of this minibatch's mean loss in averages over minibatches and ranks, for example the number of tokens
  /// without padding. No value: the number of samples.
  std::optional<double> weight = {};

  /// `weight`, or the number of samples if `weight` has no value.
  [[nodiscard]] double loss_weight() const { return weight.value_or(static_cast<double>(samples)); }
  /// The values of the field at `position`: 0 is `data`, 1 is `target`. Throws ArgumentError if there is no such field.
  [[nodiscard]] const at::Tensor& operator[](std::size_t position) const;
  /// The values of the field `name`. If there is no such field, throws an ArgumentError that lists the names.
  [[nodiscard]] const at::Tensor& operator[](std::string_view name) const { return field(name).values; }
  /// The field `name`. If there is no such field, throws an ArgumentError that lists the names.
  [[nodiscard]] const BatchField& field(std::string_view name) const;
  /// The field at `position`. Throws ArgumentError if there is no such field, or if the iterator names no fields.
  [[nodiscard]] const BatchField& field(std::size_t position) const;
  /// Makes a tensor [samples, rows of the longest sample, …] of a field whose samples vary in length. Missing rows of
  /// shorter samples are filled with `value`. Throws ArgumentError if the samples do not vary in length.
  [[nodiscard]] at::Tensor padded(std::string_view name, const at::Scalar& value = 0) const {
    return padded(field(name), value);
  }
  /// Like padded() above, for the field at `position`.
  [[nodiscard]] at::Tensor padded(std::size_t position, const at::Scalar& value = 0) const {
    return padded(field(position), value);
  }

 private:
  [[nodiscard]] at::Tensor padded(const BatchField& found, const at::Scalar& value) const;
};

}  // namespace mn
