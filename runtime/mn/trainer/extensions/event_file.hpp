/// TensorBoard's event files: records of TFRecord's framing, each an Event of tensorflow/core/util/event.proto.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <mn/trainer/extensions/appended_file.hpp>

namespace mn::extensions {

/// Writes one file, by flush(): DataError if that fails, and the next one writes it.
class EventFile {
 public:
  /// The file is events.out.tfevents.TIME.HOST.PID in `folder`, which is made too. TensorBoard forgets what other files
  /// of the folder have of `first_step` and later: they are of a run that this one continues.
  EventFile(const std::filesystem::path& folder, std::int64_t first_step);

  void scalar(const std::string& tag, std::int64_t step, double value);
  /// Markdown.
  void text(const std::string& tag, std::int64_t step, const std::string& text);
  /// `encoded` is a PNG or JPEG file.
  void image(const std::string& tag, std::int64_t step, std::string_view encoded, std::int64_t height,
             std::int64_t width);
  /// To the file, where readers see it.
  void flush() { file_.write(); }

 private:
  void add_value(std::int64_t step, const std::string& value);
  void add_event(const std::string& rest);

  AppendedFile file_;
};

}  // namespace mn::extensions
