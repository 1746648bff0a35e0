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

/// The form of a field's values.
enum class FieldKind : std::uint8_t {
  kFixed,     ///< an array of one dtype and shape for all samples
  kEncoded,   ///< the content of a file of any length, for example a compressed image (JPEG, PNG)
  kVariable,  ///< an array whose first dimension varies from sample to sample
};

/// Value of FieldSpec::num_classes while a dataset is made; at the end it becomes the largest class + 1.
inline constexpr std::int64_t kCountClasses = -1;

/// One field of every sample.
struct FieldSpec {
  std::string name = {};               ///< letters, digits, '_', '-' and '.'
  FieldKind kind = FieldKind::kFixed;  ///< a fixed array, a variable array, or a file's content
  DType dtype = DType::kUInt8;         ///< dtype of the elements; kUInt8 for encoded fields
  /// The shape of one sample; {} if the sample is a number. In a variable field, the shape without the first dimension.
  std::vector<std::int64_t> shape = {};
  std::int64_t num_classes = 0;               ///< if > 0, values are classes: integers 0 … num_classes − 1
  std::vector<std::string> class_names = {};  ///< [num_classes], or empty

  /// Bytes of one sample of a fixed field; 0 for encoded and variable fields.
  [[nodiscard]] std::int64_t sample_bytes() const noexcept;
  /// Bytes of a row, the unit of a sample's length: of a whole sample in a fixed field; 1 in an encoded field.
  [[nodiscard]] std::int64_t row_bytes() const noexcept;
  /// True if the two fields are equal in every member.
  bool operator==(const FieldSpec&) const = default;
};

/// The fields of a sample. In a minibatch, the first field becomes Batch::data, and the second becomes Batch::target.
struct SampleSpec {
  std::vector<FieldSpec> fields = {};  ///< at least one field; names are unique

  /// Field `position`, from 0. Throws ArgumentError if there is no such field.
  [[nodiscard]] const FieldSpec& operator[](std::size_t position) const;
  /// The field called `name`. If there is no such field, throws an ArgumentError that lists the names.
  [[nodiscard]] const FieldSpec& operator[](std::string_view name) const { return fields[position(name)]; }
  /// Position of the field called `name`. If there is no such field, throws an ArgumentError that lists the names.
  [[nodiscard]] std::size_t position(std::string_view name) const;

  /// Whether all fields are fixed (FieldKind::kFixed).
  [[nodiscard]] bool is_fixed() const noexcept;
  /// Bytes of all fixed fields of a sample.
  [[nodiscard]] std::int64_t sample_bytes() const noexcept;
  /// Number of classes of the second field; 0 if there is no second field, or if its values are not classes.
  [[nodiscard]] std::int64_t num_classes() const noexcept { return fields.size() < 2 ? 0 : fields[1].num_classes; }
  /// True if the two specs are equal in every field.
  bool operator==(const SampleSpec&) const = default;
};

/// Makes a spec of two fields: `data`, and "label", an int64 class. If `data` has no name, it is called "image" if it
/// is encoded, else "x".
[[nodiscard]] SampleSpec labeled(FieldSpec data, std::int64_t num_classes = kCountClasses,
                                 std::vector<std::string> class_names = {});

/// Why a spec is not valid: impossible or repeated names, impossible extents or sizes, or classes that are not
/// integers. Empty if the spec is valid.
[[nodiscard]] std::string problem_of(const SampleSpec& spec);

/// The spec as {"fields": [{"name", "kind", "dtype", "shape"}, …]}. Fields with classes also have "num_classes" and
/// "class_names".
[[nodiscard]] nlohmann::json to_json(const SampleSpec& spec);

/// Makes a spec from the JSON of to_json(). Ignores unknown keys. If the spec is not valid, throws a DataError that
/// begins with `what`.
[[nodiscard]] SampleSpec sample_spec_from_json(const nlohmann::json& document, std::string_view what);

}  // namespace mn
