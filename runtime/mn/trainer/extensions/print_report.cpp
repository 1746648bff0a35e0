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

std::string value_text(const nlohmann::json& value) {
  if (value.is_null()) return "nan";  // JSON has no NaN
  if (value.is_number_integer()) return std::to_string(value.get<std::int64_t>());
  OutText text;
  text << value.get<double>();
  return text.str();
}

std::string padded(std::string text, const std::string& column) {
  text.resize(std::max({text.size(), column.size(), kLeastWidth}) + 2, ' ');
  return text;
}

void print(const std::string& line) {
  // A progress bar leaves the cursor above the bar, so the text below the cursor is stale.
  std::printf("%s%s\n", stdout_is_terminal() ? "\033[J" : "", line.c_str());
  std::fflush(stdout);
}

}  // namespace

PrintReport::PrintReport(const LogReport& log, std::vector<std::string> columns)
    : log_(log), columns_(std::move(columns)) {}

std::string PrintReport::header() const {
  std::string text;
  for (const std::string& column : columns_) text += padded(column, column);
  return text;
}

std::string PrintReport::line(const nlohmann::json& entry) const {
  std::string text;
  for (const std::string& column : columns_) {
    text += padded(entry.contains(column) ? value_text(entry.at(column)) : "", column);
  }
  return text;
}

void PrintReport::initialize(Trainer& trainer) {
  printed_ = log_.count_read_by(*this, trainer);
  if (trainer.is_root()) print(header());
}

void PrintReport::run(Trainer& trainer) {
  for (const nlohmann::json& entry : log_.since(std::exchange(printed_, log_.count()))) {
    if (trainer.is_root()) print(line(entry));
  }
}

}  // namespace mn::extensions
