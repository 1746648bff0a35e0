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
  at::Tensor values;  ///< [samples, …]; if the field is variable, [rows of all samples, …]
  /// Set for variable fields: int64 [samples + 1]; sample i has rows [offsets[i], offsets[i + 1]) of `values`.
  at::Tensor offsets = {};
  std::int64_t longest = 0;  ///< number of rows of the longest sample of a variable field
};

/// A minibatch on one rank. The minibatches of all ranks together are the global minibatch of a step.
struct Batch {
  at::Tensor data;  ///< the first field's values: [samples, …]
  /// The values of the second field, if the samples have two fields. Labels are int64 [samples].
  at::Tensor target;
  /// Number of samples. In the last step of an epoch a rank may have 0 samples; then the first dimension of the tensors
  /// is 0.
  std::int64_t samples = 0;
  /// [samples] the dataset's numbers of the samples; empty if the iterator does not know the numbers
  std::vector<std::int64_t> indices = {};
  std::vector<BatchField> fields = {};  ///< all fields, with `data` and `target`; empty if the iterator names no fields
  /// Weight of the minibatch's mean loss in a mean over minibatches and ranks, for example the number of tokens without
  /// padding. No value: the number of samples is the weight.
  std::optional<double> weight = {};

  /// `weight`, or the number of samples if `weight` has no value.
  [[nodiscard]] double loss_weight() const { return weight.value_or(static_cast<double>(samples)); }
  /// The values of field `position`: 0 is `data`, 1 is `target`. Throws ArgumentError if there is no such field.
  [[nodiscard]] const at::Tensor& operator[](std::size_t position) const;
  /// The values of field `name`. If there is no such field, throws an ArgumentError that lists the names.
  [[nodiscard]] const at::Tensor& operator[](std::string_view name) const { return field(name).values; }
  /// Field `name`, with offsets if it is variable. If there is no such field, throws an ArgumentError that lists the
  /// names.
  [[nodiscard]] const BatchField& field(std::string_view name) const;
  /// Field `position`. Throws ArgumentError if there is no such field, or if the iterator names no fields.
  [[nodiscard]] const BatchField& field(std::size_t position) const;
  /// A variable field as a tensor [samples, rows of the longest sample, …]. Rows that a shorter sample lacks are filled
  /// with `value`. Throws ArgumentError if the field is not variable.
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
