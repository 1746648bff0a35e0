#include "data/parquet.hpp"

#include <memory>

#include <parquet/api/reader.h>

#include <mn/core/error.hpp>
#include <mn/core/text.hpp>

namespace mn::data {
namespace {

namespace fs = std::filesystem;

/// Calls read(), and turns errors of Arrow into a DataError that names the file.
template <class Read>
void read_or_fail(const fs::path& path, Read read) {
  try {
    read();
  } catch (const parquet::ParquetException& error) {
    throw DataError(path.string() + " is not a Parquet file, or is damaged: " + one_line(first_line_of(error.what())),
                    true);
  }
}

/// The number of the column.
int find_column(const fs::path& path, const parquet::SchemaDescriptor& schema, const std::string& name) {
  std::string names;
  for (int i = 0; i < schema.num_columns(); ++i) {
    const parquet::ColumnDescriptor& column = *schema.Column(i);
    const std::string own = column.path()->ToDotString();
    names += (names.empty() ? "" : ", ") + one_line(own);
    if (own != name) continue;
    if (column.physical_type() == parquet::Type::BYTE_ARRAY && column.max_repetition_level() == 0) return i;
    throw DataError(path.string() + ": column \"" + name + "\" is not of texts (--field NAME)", true);
  }
  throw DataError(path.string() + " has no column \"" + name + "\" but: " + names.substr(0, 200) + " (--field NAME)",
                  true);
}

}  // namespace

void cut_parquet(const fs::path& path, std::size_t number, const std::string& column, std::vector<TextPiece>& pieces) {
  read_or_fail(path, [&] {
    const auto file = parquet::ParquetFileReader::OpenFile(path.string(), /*memory_map=*/false);
    (void)find_column(path, *file->metadata()->schema(), column);
    for (std::int64_t group = 0; group < file->metadata()->num_row_groups(); ++group) {
      pieces.push_back({.file = number, .begin = group, .end = group + 1});
    }
  });
}

void read_parquet(const fs::path& path, const TextPiece& piece, const std::string& column,
                  const std::function<void(std::string_view)>& use) {
  constexpr std::int64_t kRows = 1024;  // read at a time
  read_or_fail(path, [&] {
    const auto file = parquet::ParquetFileReader::OpenFile(path.string(), /*memory_map=*/false);
    const int number = find_column(path, *file->metadata()->schema(), column);
    for (auto group = static_cast<int>(piece.begin); group < piece.end; ++group) {
      const auto reader = file->RowGroup(group)->Column(number);
      auto& texts = static_cast<parquet::ByteArrayReader&>(*reader);
      std::vector<parquet::ByteArray> values(kRows);
      std::vector<std::int16_t> levels(kRows);
      while (texts.HasNext()) {
        std::int64_t count = 0;
        if (texts.ReadBatch(kRows, levels.data(), nullptr, values.data(), &count) == 0) break;
        for (std::int64_t i = 0; i < count; ++i) {
          const parquet::ByteArray& value = values[static_cast<std::size_t>(i)];
          use({reinterpret_cast<const char*>(value.ptr), value.len});
        }
      }
    }
  });
}

}  // namespace mn::data
