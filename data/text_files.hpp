/// Texts in files, raw or gzip, read as one.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

namespace mn::data {

/// Calls use(piece) for pieces of some MiB, one file after another. Throws DataError that names a file that can't be
/// read to its end.
void read_texts(const std::vector<std::filesystem::path>& files, const std::function<void(std::string_view)>& use);

}  // namespace mn::data
