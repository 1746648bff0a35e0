/// The named fields of a sample, and their JSON form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <mn/core/buffer.hpp>

namespace mn {

/// How the bytes of a field are to be read.
enum class FieldKind : std::uint8_t {
  kFixed,     ///< an array of one dtype and shape for all samples
  kEncoded,   ///< every sample has a file of its own length: a compressed image (JPEG, PNG, WebP or TIFF), say
  kVariable,  ///< an array whose first dimension varies from sample to sample
};

/// A FieldSpec::num_classes for datasets that are being made: counts the classes, one more than the largest value.
inline constexpr std::int64_t kCountClasses = -1;

/// One field of every sample.
struct FieldSpec {
  std::string name = {};                 ///< letters, digits, '_', '-' and '.'
  FieldKind kind = FieldKind::kFixed;    ///< an array of one shape, of varying length, or a file
  DType dtype = DType::kUInt8;           ///< dtype of the elements; kUInt8 for encoded fields
  std::vector<std::int64_t> shape = {};  ///< shape of one sample, {} for a number; variable: after the first dimension
  std::int64_t num_classes = 0;          ///< if > 0, values are classes: integers 0 … num_classes − 1
  std::vector<std::string> class_names = {};  ///< [num_classes], or empty

  /// Bytes of one sample of a fixed field; 0 for encoded and variable fields.
  [[nodiscard]] std::int64_t sample_bytes() const noexcept;
  /// What the bytes of a sample are a multiple of: an array's row, a fixed field's sample, 1 for encoded fields.
  [[nodiscard]] std::int64_t row_bytes() const noexcept;
  /// Equal in every member.
  bool operator==(const FieldSpec&) const = default;
};

/// The fields of a sample. The first field is a minibatch's `data`, the second its `target`.
struct SampleSpec {
  std::vector<FieldSpec> fields = {};  ///< at least one field; names are unique

  /// Field `position`, counted from 0. Throws ArgumentError if there is none.
  [[nodiscard]] const FieldSpec& operator[](std::size_t position) const;
  /// The field called `name`. Throws ArgumentError that lists the names if there is none.
  [[nodiscard]] const FieldSpec& operator[](std::string_view name) const { return fields[position(name)]; }
  /// Position of the field called `name`. Throws ArgumentError that lists the names if there is none.
  [[nodiscard]] std::size_t position(std::string_view name) const;

  /// Whether all fields are.
  [[nodiscard]] bool is_fixed() const noexcept;
  /// Bytes of the fixed fields of one sample.
  [[nodiscard]] std::int64_t sample_bytes() const noexcept;
  /// Classes of the second field; 0 without classes.
  [[nodiscard]] std::int64_t num_classes() const noexcept { return fields.size() < 2 ? 0 : fields[1].num_classes; }
  /// Equal in every field.
  bool operator==(const SampleSpec&) const = default;
};

/// The usual two fields: `data`, called "x" or "image" (encoded) unless it has a name, and "label", an int64 class.
[[nodiscard]] SampleSpec labeled(FieldSpec data, std::int64_t num_classes = kCountClasses,
                                 std::vector<std::string> class_names = {});

/// Why a spec is not valid, "" if it is valid: impossible or repeated names, extents or sizes; classes that are not
/// integers.
[[nodiscard]] std::string problem_of(const SampleSpec& spec);

/// {"fields": [{"name", "kind", "dtype", "shape"}, …]}, and num_classes and class_names of class fields.
[[nodiscard]] nlohmann::json to_json(const SampleSpec& spec);

/// The spec in the JSON of to_json(); ignores unknown keys. Throws DataError that begins with `what` unless the spec is
/// valid.
[[nodiscard]] SampleSpec sample_spec_from_json(const nlohmann::json& document, std::string_view what);

}  // namespace mn
