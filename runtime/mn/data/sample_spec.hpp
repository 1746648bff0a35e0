/// What one sample of a dataset is, and its form as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <mn/core/buffer.hpp>

namespace mn {

/// How the bytes of a sample are to be read.
enum class SampleKind : std::uint8_t {
  kFixed,    ///< every sample is an array of the same dtype and shape
  kEncoded,  ///< every sample is a compressed image (JPEG, PNG, WebP or TIFF) of its own length
};

/// What one sample is.
struct SampleSpec {
  SampleKind kind = SampleKind::kFixed;       ///< an array, or a compressed image
  DType dtype = DType::kUInt8;                ///< of the elements; kUInt8 for encoded samples
  std::vector<std::int64_t> shape = {};       ///< of one fixed sample, e.g. {28, 28}; empty for encoded ones
  std::int64_t num_classes = 0;               ///< labels are 0 … num_classes − 1
  std::vector<std::string> class_names = {};  ///< [num_classes], or empty where there are none

  /// Bytes of one fixed sample; 0 for encoded ones.
  [[nodiscard]] std::int64_t sample_bytes() const noexcept;
  /// Equal in every member.
  bool operator==(const SampleSpec&) const = default;
};

/// An object with the keys kind, dtype, shape, num_classes and class_names; kind and dtype are numbers.
[[nodiscard]] nlohmann::json to_json(const SampleSpec& spec);

/// The way back; ignores other keys. Throws DataError that begins with `what` unless the document describes samples
/// that can be: every number in its range, and a name for each class or none.
[[nodiscard]] SampleSpec sample_spec_from_json(const nlohmann::json& document, std::string_view what);

}  // namespace mn
