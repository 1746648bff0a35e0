/// What lies in a conversion's output folder while the conversion is under way.
#pragma once

#include <filesystem>
#include <string>

#include "data/conversion.hpp"

namespace mn::data {

/// OUT/conversion.json is the mark: the request of the conversion, there from its plan to its end. OUT/.conversion
/// is for the plan and the signs of ranks.
class ConversionFolder {
 public:
  /// Makes the scratch folder.
  ConversionFolder(const std::filesystem::path& out, const Conversion& conversion);
  /// Removes it if it is empty.
  ~ConversionFolder();
  ConversionFolder(const ConversionFolder&) = delete;
  ConversionFolder& operator=(const ConversionFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& scratch() const noexcept { return scratch_; }
  /// Whether this conversion is under way: planned by this run or an earlier one.
  [[nodiscard]] bool is_claimed() const;
  /// Throws UsageError unless it is, or nothing else is there.
  void check_free(const Conversion& conversion) const;
  /// Begins its plan in an empty scratch folder.
  void plan(Conversion& conversion) const;
  /// Leaves the mark.
  void claim() const;
  /// Removes a plan that failed.
  void abandon() const { clear_scratch(); }
  /// Whether all manifests are there, and only leave() is to be done.
  [[nodiscard]] bool is_complete(const Conversion& conversion) const;
  /// Removes all but shards and manifests; the mark last.
  void leave() const;

 private:
  void clear_scratch() const;

  std::filesystem::path mark_;
  std::filesystem::path scratch_;
  std::string request_;
};

}  // namespace mn::data
