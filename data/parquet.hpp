/// Reads texts from columns of Parquet files, by Apache Arrow's C++ library.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text_files.hpp"

namespace mn::data {

/// Cuts file number `number` into pieces, one for each row group, and adds them to `pieces`. Throws a DataError that
/// names the file if it is not a Parquet file with a column of texts called `column`, or if this build lacks Arrow.
void cut_parquet(const std::filesystem::path& file, std::size_t number, const std::string& column,
                 std::vector<TextPiece>& pieces);

/// Calls use(text) for each row of a piece. Rows without a value are left out. Throws a DataError that names the file
/// if it is damaged.
void read_parquet(const std::filesystem::path& file, const TextPiece& piece, const std::string& column,
                  const std::function<void(std::string_view)>& use);

}  // namespace mn::data
