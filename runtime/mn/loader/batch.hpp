/// A minibatch: tensors by name and by position.
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
  std::string name;          ///< name in the dataset's spec
  at::Tensor values;         ///< [samples, …]; of a variable field the rows of all samples, [rows, …]
  at::Tensor offsets = {};   ///< variable fields: [samples + 1], int64: sample i is rows [offsets[i], offsets[i + 1])
  std::int64_t longest = 0;  ///< variable fields: rows of the longest sample
};

/// This rank's part of a global minibatch.
struct Batch {
  at::Tensor data;  ///< the first field's values: [samples, …]
  /// values of the second field, if there is one: [samples], int64, for labels
  at::Tensor target;
  std::int64_t samples = 0;  ///< may be 0 on a rank in the last step of an epoch; the shapes' tails stay
  /// [samples] numbers of the samples in the dataset, if the iterator knows them
  std::vector<std::int64_t> indices = {};
  std::vector<BatchField> fields = {};  ///< all, `data` and `target` too; empty if the iterator names none
  /// Weight of the minibatch's mean loss relative to other minibatches and ranks, if it is not the number of samples:
  /// for example, tokens without padding.
  std::optional<double> weight = {};

  /// `weight`, or the samples.
  [[nodiscard]] double loss_weight() const { return weight.value_or(static_cast<double>(samples)); }
  /// The values of field `position`: 0 is data, 1 target. Throws ArgumentError if there is no such field.
  [[nodiscard]] const at::Tensor& operator[](std::size_t position) const;
  /// The values of field `name`. Throws ArgumentError that lists the names if there is no such field.
  [[nodiscard]] const at::Tensor& operator[](std::string_view name) const { return field(name).values; }
  /// Field `name`, with offsets if it is variable. Throws ArgumentError that lists the names if there is no such field.
  [[nodiscard]] const BatchField& field(std::string_view name) const;
  /// Field `position`, if the iterator names its fields. Throws ArgumentError if there is no such field.
  [[nodiscard]] const BatchField& field(std::size_t position) const;
  /// A variable field as [samples, rows of the longest, …], shorter ones filled up with `value`. Throws ArgumentError
  /// for fields without offsets.
  [[nodiscard]] at::Tensor padded(std::string_view name, const at::Scalar& value = 0) const {
    return padded(field(name), value);
  }
  /// padded() by position.
  [[nodiscard]] at::Tensor padded(std::size_t position, const at::Scalar& value = 0) const {
    return padded(field(position), value);
  }

 private:
  [[nodiscard]] at::Tensor padded(const BatchField& found, const at::Scalar& value) const;
};

}  // namespace mn
