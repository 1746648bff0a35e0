/// Writes TensorBoard's event files: TFRecords that hold Events (tensorflow/core/util/event.proto).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <mn/trainer/extensions/appended_file.hpp>

namespace mn::extensions {

/// Numbers of values in buckets of equal width, from `least` to `most`.
struct Histogram {
  double least = 0;
  double most = 0;
  double count = 0;
  double sum = 0;
  double sum_of_squares = 0;
  std::vector<double> buckets = {};
};

/// Collects events for one file. flush() writes them.
class EventFile {
 public:
  /// The file is events.out.tfevents.TIME.HOST.PID in `folder`; the first write makes the folder. TensorBoard then
  /// drops the events of step `first_step` and later in the folder's older files, because this run makes those steps
  /// again.
  EventFile(const std::filesystem::path& folder, std::int64_t first_step);

  /// Adds a point to the curve `tag`.
  void scalar(const std::string& tag, std::int64_t step, double value);
  /// Adds a text in Markdown.
  void text(const std::string& tag, std::int64_t step, const std::string& text);
  /// Adds an image; `encoded` is a PNG or JPEG file.
  void image(const std::string& tag, std::int64_t step, std::string_view encoded, std::int64_t height,
             std::int64_t width);
  /// Adds a histogram with at least one bucket.
  void histogram(const std::string& tag, std::int64_t step, const Histogram& histogram);
  /// Writes the collected events. If this fails, throws DataError; the next call then writes these events, too.
  void flush() { file_.write(); }

 private:
  void add_value(std::int64_t step, const std::string& value);
  void add_event(const std::string& rest);

  AppendedFile file_;
};

}  // namespace mn::extensions
