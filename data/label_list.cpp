#include "data/label_list.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>

#include "data/csv.hpp"
#include "data/text_files.hpp"

namespace mn::data {
namespace {

namespace fs = std::filesystem;
using Cells = std::vector<std::string>;

std::optional<std::int32_t> number_in(std::string_view text) {
  const auto label = parse_number<std::int32_t>(text);
  return label && *label >= 0 ? label : std::nullopt;
}

constexpr const char* kNotLabel = " is not a label (a whole number from 0 to 2147483647)";

/// Parses a line "path label". The path may have spaces.
ListedImage parse_line(const std::string& line, std::int64_t number, const std::string& where) {
  const std::size_t space = line.find_last_of(" \t");
  if (space == std::string::npos || space == 0)
    throw DataError(where + ": \"" + line + "\" is not of the form \"path label\"");
  const auto label = number_in(std::string_view(line).substr(space + 1));
  if (!label) throw DataError(where + ": \"" + line.substr(space + 1) + "\"" + kNotLabel);
  return {line.substr(0, line.find_last_not_of(" \t", space) + 1), *label, number};
}

/// Calls use(line, number, "FILE:NUMBER") for each line, without trailing blanks and byte order mark.
template <class Use>
void for_each_line(const fs::path& path, Use use) {
  std::ifstream lines = open_list(path);
  std::string line;
  for (std::int64_t number = 1; std::getline(lines, line); ++number) {
    if (number == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
    line.erase(line.find_last_not_of(" \t\r") + 1);
    use(line, number, path.string() + ":" + std::to_string(number));
  }
}

std::size_t column_in(const Cells& header, std::string_view name, const std::string& where) {
  const auto found = std::ranges::find(header, trimmed(name), [](const std::string& cell) { return trimmed(cell); });
  if (found != header.end()) return static_cast<std::size_t>(found - header.begin());
  throw DataError(where + ": there is no column \"" + std::string(name) + "\", but " + join(header) +
                  ": choose with --columns PATH,LABEL");
}

class CsvList {
 public:
  CsvList(const fs::path& list, const ListOptions& options)
      : rows_(list), folder_(list.parent_path()), columns_(options.columns), labels_(options.class_names) {
    if (!columns_.empty() && std::ranges::count(columns_, ',') != 1) {
      throw UsageError("--columns \"" + columns_ + "\" is not of the form PATH,LABEL");
    }
  }

  void read(const std::function<void(ListedImage)>& use) {
    Cells cells;
    if (!rows_.next(cells)) return;
    const std::size_t count = cells.size();
    const bool has_header = read_header(cells);
    for (bool more = !has_header || rows_.next(cells); more; more = rows_.next(cells)) {
      if (cells.size() != count) {
        throw DataError(rows_.where() + ": a row of " + std::to_string(cells.size()) +
                        " cells, but the first row has " + std::to_string(count));
      }
      if (cells[path_].empty()) throw DataError(rows_.where() + ": the path is empty");
      use({cells[path_], label_of(cells[label_]), rows_.line()});
    }
  }

 private:
  /// Finds the columns of path and label by the first row. Returns true if this row is a header.
  bool read_header(const Cells& first) {
    if (!columns_.empty()) {
      const std::size_t comma = columns_.find(',');
      path_ = column_in(first, std::string_view(columns_).substr(0, comma), rows_.where());
      label_ = column_in(first, std::string_view(columns_).substr(comma + 1), rows_.where());
      return true;
    }
    if (first.size() != 2) {
      throw DataError(rows_.where() + ": " + std::to_string(first.size()) + " columns (" + join(first) +
                      "): choose path and label with --columns PATH,LABEL");
    }
    return !labels_.find(first[label_]) && !is_image(first[path_]);
  }

  /// Whether a cell of the first row is an image's path, not a column's name.
  [[nodiscard]] bool is_image(const std::string& cell) const {
    std::error_code error;
    return named_as_image(cell) || fs::is_regular_file(folder_ / cell, error);
  }

  [[nodiscard]] std::int32_t label_of(const std::string& cell) const {
    if (const auto label = labels_.find(cell)) return *label;
    throw DataError(rows_.where() + ": \"" + cell + "\"" + labels_.expected());
  }

  CsvReader rows_;
  fs::path folder_;
  std::string columns_;
  Labels labels_;
  std::size_t path_ = 0;
  std::size_t label_ = 1;
};

bool is_csv(const fs::path& list) {
  const std::string extension = to_lower(list.extension().string());
  return extension == ".csv" || extension == ".tsv";
}

}  // namespace

bool is_image_extension(std::string_view extension) {
  constexpr std::string_view kExtensions[] = {"jpg", "jpeg", "png", "webp", "tif", "tiff", "bmp", "ppm", "pgm"};
  return std::ranges::find(kExtensions, extension) != std::end(kExtensions);
}

bool named_as_image(const fs::path& path) {
  const std::string extension = to_lower(path.extension().string());
  return !extension.empty() && is_image_extension(std::string_view(extension).substr(1));
}

Labels::Labels(const std::vector<std::string>& class_names) {
  for (const std::string& name : class_names) numbers_.emplace(name, static_cast<std::int32_t>(numbers_.size()));
}

std::optional<std::int32_t> Labels::find(std::string_view text) const {
  text = trimmed(text);
  if (const auto number = number_in(text)) return number;
  const auto named = numbers_.find(text);
  return named == numbers_.end() ? std::nullopt : std::optional(named->second);
}

std::string Labels::expected() const {
  return kNotLabel + std::string(numbers_.empty() ? ": --classes FILE numbers names" : ", nor a class of --classes");
}

void for_each_listed(const fs::path& list, const ListOptions& options, const std::function<void(ListedImage)>& use) {
  if (is_csv(list)) return CsvList(list, options).read(use);
  if (!options.columns.empty()) throw UsageError("--columns is for a list NAME.csv or NAME.tsv, not " + list.string());
  for_each_line(list, [&](const std::string& line, std::int64_t number, const std::string& where) {
    if (!line.empty()) use(parse_line(line, number, where));
  });
}

std::vector<std::string> read_class_names(const fs::path& file) {
  constexpr std::size_t kLongest = 255;  // bytes of a class name, the limit of folder names
  std::vector<std::string> names;
  std::map<std::string, std::string> seen;
  std::string blank;
  for_each_line(file, [&](const std::string& line, std::int64_t, const std::string& where) {
    if (line.empty()) {
      blank = where;
      return;
    }
    if (!blank.empty()) throw DataError(blank + " is empty: line by line the names of labels 0, 1, … are expected");
    const auto [other, is_new] = seen.emplace(line, where);
    if (!is_new) throw DataError(where + ": class \"" + line + "\" was named at " + other->second + " already");
    if (utf8_text(line) != line) {
      throw DataError(where + ": " + json_quoted(line) +
                      " is not UTF-8: convert the file, as by iconv -f latin1 -t utf8");
    }
    if (line.size() > kLongest) throw DataError(where + ": a name of more than " + std::to_string(kLongest) + " bytes");
    names.push_back(line);
  });
  return names;
}

}  // namespace mn::data
