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
  std::string name;          ///< as the dataset's spec has it
  at::Tensor values;         ///< [samples, …]; of a variable field the rows of all samples, [rows, …]
  at::Tensor offsets = {};   ///< variable fields: [samples + 1], int64: sample i is rows [offsets[i], offsets[i + 1])
  std::int64_t longest = 0;  ///< variable fields: rows of the sample that has most
};

/// This rank's part of one global minibatch.
struct Batch {
  at::Tensor data;                         ///< the first field's values: [samples, …]
  at::Tensor target;                       ///< the second one's, if there is one: [samples], int64, for labels
  std::int64_t samples = 0;                ///< may be 0 on a rank in the last step of an epoch; the shapes' tails stay
  std::vector<std::int64_t> indices = {};  ///< [samples] their numbers in the dataset, where the iterator knows them
  std::vector<BatchField> fields = {};     ///< all, `data` and `target` too; empty if the iterator names none
  /// What its mean loss weighs against other minibatches' and other ranks', if that is not its samples: its tokens,
  /// say, without padding.
  std::optional<double> weight = {};

  /// `weight`, or the samples.
  [[nodiscard]] double loss_weight() const { return weight.value_or(static_cast<double>(samples)); }
  /// The values of field `position`: 0 is data, 1 target. Throws ArgumentError if there is no such field.
  [[nodiscard]] const at::Tensor& operator[](std::size_t position) const;
  /// The values of the field of that name. Throws ArgumentError that lists the names for any other.
  [[nodiscard]] const at::Tensor& operator[](std::string_view name) const { return field(name).values; }
  /// The field of that name, with offsets if it is variable. Throws likewise.
  [[nodiscard]] const BatchField& field(std::string_view name) const;
  /// The same by position, where the iterator names its fields.
  [[nodiscard]] const BatchField& field(std::size_t position) const;
  /// A variable field as [samples, rows of the longest, …], shorter ones filled up with `value`. Throws ArgumentError
  /// for fields without offsets.
  [[nodiscard]] at::Tensor padded(std::string_view name, const at::Scalar& value = 0) const {
    return padded(field(name), value);
  }
  /// The same by position.
  [[nodiscard]] at::Tensor padded(std::size_t position, const at::Scalar& value = 0) const {
    return padded(field(position), value);
  }

 private:
  [[nodiscard]] at::Tensor padded(const BatchField& found, const at::Scalar& value) const;
};

}  // namespace mn
