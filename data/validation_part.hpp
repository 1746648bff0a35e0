/// Chooses the documents for validation.
#pragma once

#include <cstdint>
#include <span>

#include <mn/core/checksum.hpp>

namespace mn::data {

/// Chooses one of every 1 / part documents, pseudo-randomly. Of n documents of a series, ⌊n · part⌋ or one more are
/// chosen.
class ValidationPart {
 public:
  /// 0 <= part < 1
  explicit ValidationPart(double part) : part_(part) {}

  [[nodiscard]] bool has(std::int64_t series, std::int64_t document) const {
    if (part_ == 0) return false;
    const std::int64_t group = group_of(document);
    const std::int64_t first = first_of(group), size = first_of(group + 1) - first;
    const std::int64_t key[] = {series, group};
    return document ==
           first + static_cast<std::int64_t>(hash64(std::as_bytes(std::span(key))) % static_cast<std::uint64_t>(size));
  }

 private:
  [[nodiscard]] std::int64_t group_of(std::int64_t document) const {
    return static_cast<std::int64_t>(static_cast<double>(document) * part_);
  }
  /// The first document of a group.
  [[nodiscard]] std::int64_t first_of(std::int64_t group) const {
    auto document = static_cast<std::int64_t>(static_cast<double>(group) / part_);
    while (document > 0 && group_of(document - 1) >= group) --document;
    while (group_of(document) < group) ++document;
    return document;
  }

  double part_;
};

}  // namespace mn::data
