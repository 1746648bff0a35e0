// Replaces parquet.cpp in builds without Apache Arrow.
#include "data/parquet.hpp"

#include <mn/core/error.hpp>

namespace mn::data {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file) {
  throw DataError(
      file.string() +
          " is a Parquet file, and mn was built without Apache Arrow: install it (libparquet-dev of Arrow's "
          "packages) and build mn again, or write the texts as .jsonl, e.g. with pandas' to_json",
      true);
}

}  // namespace

void cut_parquet(const std::filesystem::path& file, std::size_t, const std::string&, std::vector<TextPiece>&) {
  fail(file);
}

void read_parquet(const std::filesystem::path& file, const TextPiece&, const std::string&,
                  const std::function<void(std::string_view)>&) {
  fail(file);
}

}  // namespace mn::data
