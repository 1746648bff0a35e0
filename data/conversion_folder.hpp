/// The output folder of a conversion under way.
#pragma once

#include <filesystem>
#include <string>

#include "data/conversion.hpp"

namespace mn::data {

/// OUT/conversion.json, the mark, is the request of the conversion; it exists from the plan to the end.
/// OUT/.conversion, the scratch folder, has the plan and the signs of ranks.
class ConversionFolder {
 public:
  /// Makes the scratch folder.
  ConversionFolder(const std::filesystem::path& out, const Conversion& conversion);
  /// Removes the scratch folder if it is empty.
  ~ConversionFolder();
  ConversionFolder(const ConversionFolder&) = delete;
  ConversionFolder& operator=(const ConversionFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& scratch() const noexcept { return scratch_; }
  /// Whether this conversion is under way, planned by this run or an earlier run.
  [[nodiscard]] bool is_claimed() const;
  /// Throws UsageError unless this conversion is under way, or the folders are free.
  void check_free(const Conversion& conversion) const;
  /// Makes the plan in an empty scratch folder.
  void plan(Conversion& conversion) const;
  /// Leaves the mark.
  void claim() const;
  /// Removes a failed plan.
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
