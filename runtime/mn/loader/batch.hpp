/// A minibatch, with its tensors by name and by position.
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

/// One field of a minibatch.
struct BatchField {
  std::string name;   ///< name in the dataset's spec
  at::Tensor values;  ///< [samples, …]; of a variable field [rows, …], the rows of all samples one after another
  /// Of variable fields: [samples + 1], int64; sample i has rows [offsets[i], offsets[i + 1]).
  at::Tensor offsets = {};
  std::int64_t longest = 0;  ///< of variable fields: number of rows of the longest sample
};

/// This rank's part of a global minibatch.
struct Batch {
  at::Tensor data;  ///< the first field's values: [samples, …]
  /// The second field's values, if there is one; for labels [samples], int64.
  at::Tensor target;
  /// May be 0 on a rank in the last step of an epoch; then the tensors have first dimension 0.
  std::int64_t samples = 0;
  /// [samples] numbers of the samples in the dataset; empty if the iterator does not know them
  std::vector<std::int64_t> indices = {};
  std::vector<BatchField> fields = {};  ///< all fields, with `data` and `target`; empty if the iterator names no fields
  /// Weight of the minibatch's mean loss relative to other minibatches and ranks: for example, the number of tokens
  /// without padding. No value: the number of samples is the weight.
  std::optional<double> weight = {};

  /// `weight`, or the number of samples if `weight` has no value.
  [[nodiscard]] double loss_weight() const { return weight.value_or(static_cast<double>(samples)); }
  /// The values of field `position`: 0 is `data`, 1 is `target`. Throws ArgumentError if there is no such field.
  [[nodiscard]] const at::Tensor& operator[](std::size_t position) const;
  /// The values of field `name`. Throws ArgumentError that lists the names if there is no such field.
  [[nodiscard]] const at::Tensor& operator[](std::string_view name) const { return field(name).values; }
  /// Field `name`, with offsets if it is variable. Throws ArgumentError that lists the names if there is no such field.
  [[nodiscard]] const BatchField& field(std::string_view name) const;
  /// Field `position`, if the iterator names its fields. Throws ArgumentError if there is no such field.
  [[nodiscard]] const BatchField& field(std::size_t position) const;
  /// A variable field as [samples, rows of the longest sample, …]; shorter samples are filled up with `value`. Throws
  /// ArgumentError if the field is not variable.
  [[nodiscard]] at::Tensor padded(std::string_view name, const at::Scalar& value = 0) const {
    return padded(field(name), value);
  }
  /// padded() for the field at `position`.
  [[nodiscard]] at::Tensor padded(std::size_t position, const at::Scalar& value = 0) const {
    return padded(field(position), value);
  }

 private:
  [[nodiscard]] at::Tensor padded(const BatchField& found, const at::Scalar& value) const;
};

}  // namespace mn
