#include <mn/trainer/extensions/print_report.hpp>

#include <algorithm>
#include <cstdio>
#include <utility>

#include <mn/core/classic_stream.hpp>
#include <mn/core/json.hpp>
#include <mn/trainer/extensions/progress_bar.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {
namespace {

constexpr std::size_t kLeastWidth = 10;

/// Formats a number with at most six digits, or with fewer digits if it would otherwise be wider than its column.
std::string value_text(const nlohmann::json& value, std::size_t width) {
  if (value.is_null()) return "nan";  // JSON has no NaN
  if (value.is_number_integer()) return std::to_string(value.get<std::int64_t>());
  for (int digits = 6;; --digits) {
    OutText text;
    text.precision(digits);
    text << value.get<double>();
    if (text.str().size() <= width || digits == 1) return text.str();
  }
}

std::size_t width_of(const std::string& column) { return std::max(column.size(), kLeastWidth); }

std::string padded(std::string text, const std::string& column) {
  text.resize(std::max(text.size(), width_of(column)) + 2, ' ');
  return text;
}

void print(const std::string& line) {
  // The control code "\033[J" erases everything below the cursor, because an old progress bar may be there.
  std::printf("%s%s\n", stdout_columns() > 0 ? "\033[J" : "", line.c_str());
  std::fflush(stdout);
}

}  // namespace

PrintReport::PrintReport(const LogReport& log, std::vector<std::string> columns, Header header)
    : log_(log), columns_(std::move(columns)), when_(header) {
  if (when_ == Header::kAtStart) shown_ = columns_;
}

std::string PrintReport::header() const {
  std::string text;
  for (const std::string& column : shown_) text += padded(column, column);
  return text;
}

std::string PrintReport::line(const nlohmann::json& entry) const {
  std::string text;
  for (const std::string& column : shown_) {
    text += padded(entry.contains(column) ? value_text(entry.at(column), width_of(column)) : "", column);
  }
  return text;
}

void PrintReport::initialize(Trainer& trainer) {
  printed_ = log_.count_read_by(*this, trainer);
  if (when_ == Header::kAtStart && trainer.is_root()) print(header());
}

/// Returns true if `entry` has values in columns that no earlier entry has filled.
bool PrintReport::take_columns(const nlohmann::json& entry) {
  std::vector<std::string> shown;
  for (const std::string& column : columns_) {
    if (entry.contains(column) || std::ranges::find(shown_, column) != shown_.end()) shown.push_back(column);
  }
  return shown.size() > std::exchange(shown_, shown).size();
}

void PrintReport::run(Trainer& trainer) {
  for (const nlohmann::json& entry : log_.since(std::exchange(printed_, log_.count()))) {
    if (take_columns(entry) && trainer.is_root()) print(header());
    if (trainer.is_root()) print(line(entry));
  }
}

}  // namespace mn::extensions
