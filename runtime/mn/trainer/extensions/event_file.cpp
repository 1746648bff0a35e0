// Writes TensorBoard's event files, which consist of TFRecords with protocol buffers. Only the needed parts of both
// formats are implemented. Sources: https://protobuf.dev/programming-guides/encoding;
// tensorflow/core/lib/io/record_writer.h, util/event.proto, framework/summary.proto, tensorboard/plugins/text.
#include <mn/trainer/extensions/event_file.hpp>

#include <bit>
#include <cstring>
#include <iomanip>

#include <unistd.h>

#include <mn/core/checksum.hpp>
#include <mn/core/classic_stream.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/unix_time.hpp>

namespace mn::extensions {
namespace {

static_assert(std::endian::native == std::endian::little);

enum WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

template <class T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

std::string key(int field, WireType type) { return varint(static_cast<std::uint64_t>(field) << 3 | type); }
std::string whole(int field, std::int64_t value) {
  return key(field, kVarint) + varint(static_cast<std::uint64_t>(value));
}
std::string bytes(int field, std::string_view value) {
  return key(field, kBytes) + varint(value.size()) + std::string(value);
}

/// TFRecord masks checksums, because a checksum over data that contains checksums would be weak.
std::uint32_t masked_crc(std::string_view data) {
  return std::rotr(crc32c(std::as_bytes(std::span(data))), 15) + 0xa282ead8U;
}

std::string new_name() {
  OutText name;
  name << "events.out.tfevents." << std::setw(10) << std::setfill('0') << static_cast<std::int64_t>(unix_time()) << '.'
       << host_name() << '.' << getpid();
  return name.str();
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder, std::int64_t first_step)
    : file_(folder / new_name(), AppendedFile::Start::kAnew) {
  constexpr int kFileVersion = 3, kSessionLog = 7, kStart = 1;
  add_event(bytes(kFileVersion, "brain.Event:2"));
  add_event(whole(2, first_step) + bytes(kSessionLog, whole(1, kStart)));
}

void EventFile::scalar(const std::string& tag, std::int64_t step, double value) {
  add_value(step, bytes(1, tag) + key(2, kFixed32) + raw(static_cast<float>(value)));
}

void EventFile::text(const std::string& tag, std::int64_t step, const std::string& text) {
  constexpr int kString = 7;
  const std::string shape = bytes(2, whole(1, 1));  // one dimension of size 1
  const std::string tensor = whole(1, kString) + bytes(2, shape) + bytes(8, text);
  add_value(step, bytes(1, tag) + bytes(8, tensor) + bytes(9, bytes(1, bytes(1, "text"))));
}

void EventFile::image(const std::string& tag, std::int64_t step, std::string_view encoded, std::int64_t height,
                      std::int64_t width) {
  constexpr int kRgb = 3;
  add_value(step, bytes(1, tag) + bytes(4, whole(1, height) + whole(2, width) + whole(3, kRgb) + bytes(4, encoded)));
}

void EventFile::histogram(const std::string& tag, std::int64_t step, const Histogram& histogram) {
  std::string limits, counts;
  const double width = (histogram.most - histogram.least) / static_cast<double>(histogram.buckets.size());
  for (std::size_t i = 0; i < histogram.buckets.size(); ++i) {
    const bool is_last = i + 1 == histogram.buckets.size();
    limits += raw(is_last ? histogram.most : histogram.least + width * static_cast<double>(i + 1));
    counts += raw(histogram.buckets[i]);
  }
  const auto number = [](int field, double value) { return key(field, kFixed64) + raw(value); };
  const std::string message = number(1, histogram.least) + number(2, histogram.most) + number(3, histogram.count) +
                              number(4, histogram.sum) + number(5, histogram.sum_of_squares) + bytes(6, limits) +
                              bytes(7, counts);
  add_value(step, bytes(1, tag) + bytes(5, message));
}

void EventFile::add_value(std::int64_t step, const std::string& value) {
  constexpr int kSummary = 5;
  add_event(whole(2, step) + bytes(kSummary, bytes(1, value)));
}

void EventFile::add_event(const std::string& rest) {
  const std::string event = key(1, kFixed64) + raw(unix_time()) + rest;
  const std::string length = raw(static_cast<std::uint64_t>(event.size()));
  file_.add(length + raw(masked_crc(length)) + event + raw(masked_crc(event)));
}

}  // namespace mn::extensions
