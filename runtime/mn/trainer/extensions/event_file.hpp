/// Writes the event files that TensorBoard reads: TFRecords that hold Events (tensorflow/core/util/event.proto).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <mn/trainer/extensions/appended_file.hpp>

namespace mn::extensions {

/// A histogram: `least` and `most` are the ends of its range, and `buckets` has the number of values in each of several
/// equally wide parts of the range.
struct Histogram {
  double least = 0;
  double most = 0;
  double count = 0;
  double sum = 0;
  double sum_of_squares = 0;
  std::vector<double> buckets = {};
};

/// Collects events for one event file. flush() writes the events to the file.
class EventFile {
 public:
  /// The file is FOLDER/events.out.tfevents.TIME.HOST.PID; the first write makes the folder. TensorBoard then ignores
  /// step `first_step` and all later steps in the older event files of the folder, because this run makes these steps
  /// again.
  EventFile(const std::filesystem::path& folder, std::int64_t first_step);

  /// Adds a point to the curve `tag`.
  void scalar(const std::string& tag, std::int64_t step, double value);
  /// Adds a text in Markdown under the name `tag`.
  void text(const std::string& tag, std::int64_t step, const std::string& text);
  /// Adds an image under the name `tag`. `encoded` is the content of a PNG or JPEG file.
  void image(const std::string& tag, std::int64_t step, std::string_view encoded, std::int64_t height,
             std::int64_t width);
  /// Adds a histogram with at least one bucket.
  void histogram(const std::string& tag, std::int64_t step, const Histogram& histogram);
  /// Writes the collected events. If the write fails, throws DataError, and the next call writes the same events.
  void flush() { file_.write(); }

 private:
  void add_value(std::int64_t step, const std::string& value);
  void add_event(const std::string& rest);

  AppendedFile file_;
};

}  // namespace mn::extensions
