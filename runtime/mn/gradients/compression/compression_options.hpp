/// How gradients are compressed before they travel.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mn {

/// The form in which a rank sends each gradient. All forms but kNone lose a part of the gradient. The rank adds the
/// lost part to its next gradient (error feedback: Karimireddy et al. 2019, arXiv:1901.09847).
enum class Compression : std::uint8_t {
  kNone,      ///< "none": the whole gradient
  kFp16,      ///< "fp16": each element as a float16
  kBf16,      ///< "bf16": each element as a bfloat16
  kTopK,      ///< "topk": the elements of largest magnitude, with their indices
  kPowerSgd,  ///< "powersgd": two thin matrices whose product approximates the gradient
};

/// Returns the names that parse_compression() knows, in the order of the enumeration.
[[nodiscard]] std::vector<std::string> compression_names();
/// Returns the kind of compression called `name`. If no kind has this name, throws a UsageError that lists all names.
[[nodiscard]] Compression parse_compression(std::string_view name);

/// A kind of compression and its parameters.
struct CompressionOptions {
  Compression kind = Compression::kNone;  ///< if there is only one rank, nothing is compressed
  double density = 0.01;                  ///< top-k: the fraction of each gradient's elements that travels, in (0, 1]
  std::int64_t rank = 4;                  ///< PowerSGD: columns of its matrices, at least 1
};

}  // namespace mn
