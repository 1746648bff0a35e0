/// Writes the event files that TensorBoard reads: TFRecords that hold Events (tensorflow/core/util/event.proto).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <mn/trainer/extensions/appended_file.hpp>

namespace mn::extensions {

/// `buckets` has the numbers of values in equally wide parts of the range from `least` to `most`.
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
  /// The first write makes FOLDER/events.out.tfevents.TIME.HOST.PID. This run makes `first_step` and all later steps
  /// again, so TensorBoard ignores these steps in older files of the folder.
  EventFile(const std::filesystem::path& folder, std::int64_t first_step);

  void scalar(const std::string& tag, std::int64_t step, double value);
  void text(const std::string& tag, std::int64_t step, const std::string& text);
  /// Adds an image under the name `tag`. `encoded` is the content of a PNG or JPEG file.
  void image(const std::string& tag, std::int64_t step, std::string_view encoded, std::int64_t height,
             std::int64_t width);
  void histogram(const std::string& tag, std::int64_t step, const Histogram& histogram);
  /// Writes the collected events. If the write fails, throws DataError, and the next call writes the same events.
  void flush() { file_.write(); }

 private:
  void add_value(std::int64_t step, const std::string& value);
  void add_event(const std::string& rest);

  AppendedFile file_;
};

}  // namespace mn::extensions
