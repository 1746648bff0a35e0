/// Unicode's data as numbers in text; make_unicode_tables writes and describes them.
#pragma once

#include <string_view>

namespace mn::data {

extern const std::string_view kCategoryRuns;
extern const std::string_view kCombiningClasses;
extern const std::string_view kDecompositions;

}  // namespace mn::data
