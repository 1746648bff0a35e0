#include <mn/data/raw_samples.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include <mn/core/error.hpp>
#include <mn/data/classes.hpp>

namespace mn {
namespace data {
namespace {

template <class T>
ClassRange range_as(std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  T least = std::numeric_limits<T>::max();
  T most = std::numeric_limits<T>::min();
  for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value;
    // A cast is not possible, because a column's bytes need not be aligned for T.
    std::memcpy(&value, bytes.data() + at, sizeof value);
    least = std::min(least, value);
    most = std::max(most, value);
  }
  constexpr auto kLargest = std::numeric_limits<std::int64_t>::max();
  // int64's maximum stands for all larger values: none of these values is a class.
  const auto narrowed = [](T value) { return std::cmp_greater(value, kLargest) ? kLargest : std::int64_t(value); };
  return {narrowed(least), narrowed(most), static_cast<std::uint64_t>(std::max<T>(most, 0))};
}

/// Calls use(T()) with the element type T. Throws ArgumentError unless the dtype is an integer.
template <class Use>
auto for_integer_type(DType dtype, const Use& use) {
  if (dtype == DType::kUInt8) return use(std::uint8_t());
  if (dtype == DType::kInt8) return use(std::int8_t());
  if (dtype == DType::kInt16) return use(std::int16_t());
  if (dtype == DType::kInt32) return use(std::int32_t());
  if (dtype == DType::kInt64) return use(std::int64_t());
  if (dtype == DType::kUInt16) return use(std::uint16_t());
  if (dtype == DType::kUInt32) return use(std::uint32_t());
  if (dtype == DType::kUInt64) return use(std::uint64_t());
  throw ArgumentError("classes of " + std::string(name_of(dtype)) + ", which are not integers");
}

}  // namespace

ClassRange range_of(DType dtype, std::span<const std::byte> bytes) {
  return for_integer_type(dtype, [&]<class T>(T) { return range_as<T>(bytes); });
}

std::vector<std::int64_t> integers_of(DType dtype, std::span<const std::byte> bytes) {
  return for_integer_type(dtype, [&](auto value) {
    std::vector<std::int64_t> integers;
    for (std::size_t at = 0; at + sizeof value <= bytes.size(); at += sizeof value) {
      std::memcpy(&value, bytes.data() + at, sizeof value);
      integers.push_back(static_cast<std::int64_t>(value));
    }
    return integers;
  });
}

}  // namespace data

namespace {

std::string length_problem(const FieldSpec& field, const ConstBufferView& values) {
  if (values.dtype != field.dtype) {
    return "it is of " + std::string(name_of(field.dtype)) + ", these values are of " +
           std::string(name_of(values.dtype));
  }
  const auto bytes = static_cast<std::int64_t>(values.bytes());
  if (values.device.type != DeviceType::kCpu) return "these values are not on the CPU";
  if (field.kind == FieldKind::kFixed ? bytes == field.sample_bytes() : bytes % field.row_bytes() == 0) return {};
  return "a sample has " + std::to_string(field.row_bytes()) +
         (field.kind == FieldKind::kFixed ? " bytes, not " : " bytes a row, but these values ") + std::to_string(bytes);
}

void check_values(const FieldSpec& field, const ConstBufferView& values, std::int64_t number) {
  const std::string problem = length_problem(field, values);
  if (problem.empty()) return;
  throw ArgumentError("field " + field.name + " of sample " + std::to_string(number) + ": " + problem);
}

void append(RawColumn& column, const ConstBufferView& values) {
  const auto* begin = static_cast<const std::byte*>(values.data);
  column.bytes.insert(column.bytes.end(), begin, begin + values.bytes());
  if (!column.offsets.empty()) column.offsets.push_back(std::ssize(column.bytes));
}

void check_column(const RawColumn& column, const FieldSpec& field, std::int64_t n) {
  const auto bytes = static_cast<std::int64_t>(column.bytes.size());
  const bool fits = column.sample_bytes == field.sample_bytes() || n == 0;
  bool good = field.kind == FieldKind::kFixed ? fits && column.offsets.empty() && bytes == n * field.sample_bytes()
                                              : std::ssize(column.offsets) == n + 1 && column.offsets.front() == 0 &&
                                                    column.offsets.back() == bytes;
  for (std::size_t i = 1; good && i < column.offsets.size(); ++i) {
    const std::int64_t length = column.offsets[i] - column.offsets[i - 1];
    good = length >= 0 && length % field.row_bytes() == 0;
  }
  if (good) return;
  throw ArgumentError("field " + field.name + " of " + std::to_string(n) + " samples has " + std::to_string(bytes) +
                      " bytes and " + std::to_string(column.offsets.size()) + " offsets: a mismatch");
}

void check_classes(const RawColumn& column, FieldSpec& field) {
  if (field.num_classes == 0) return;
  const data::ClassRange range = data::range_of(field.dtype, column.bytes);
  if (field.num_classes == kCountClasses)
    field.num_classes = std::clamp<std::int64_t>(range.most, 0, data::kMaxClasses - 1) + 1;
  if (range.is_in(field.num_classes)) return;
  // The error message names the first wrong sample.
  std::int64_t sample = 0;
  while (data::range_of(field.dtype, column.sample(sample)).is_in(field.num_classes)) ++sample;
  const data::ClassRange own = data::range_of(field.dtype, column.sample(sample));
  throw ArgumentError("sample " + std::to_string(sample) + " has " + field.name + " " + own.outlier() +
                      ": classes are 0 to " + std::to_string(field.num_classes - 1) +
                      "; a field of num_classes 0 holds any numbers");
}

}  // namespace

std::int64_t RawSamples::bytes() const noexcept {
  std::size_t total = 0;
  for (const RawColumn& column : columns) total += column.bytes.size();
  return static_cast<std::int64_t>(total);
}

void RawSamples::reset(const SampleSpec& spec, std::int64_t n) {
  count = n;
  columns.resize(spec.fields.size());
  for (std::size_t f = 0; f < columns.size(); ++f) {
    const bool fixed = spec.fields[f].kind == FieldKind::kFixed;
    columns[f].sample_bytes = spec.fields[f].sample_bytes();
    columns[f].offsets.assign(fixed ? 0 : 1, 0);
    columns[f].bytes.resize(fixed ? n * columns[f].sample_bytes : 0);
  }
}

void RawSamples::add(const SampleSpec& spec, std::span<const ConstBufferView> fields) {
  if (fields.size() != spec.fields.size()) {
    throw ArgumentError("sample " + std::to_string(count) + " has " + std::to_string(fields.size()) + " fields, not " +
                        std::to_string(spec.fields.size()));
  }
  // All fields are checked first, so that after an error all columns have equal numbers of samples.
  for (std::size_t f = 0; f < fields.size(); ++f) check_values(spec.fields[f], fields[f], count);
  for (std::size_t f = 0; f < fields.size(); ++f) append(columns[f], fields[f]);
  ++count;
}

void RawSamples::add_values(const SampleSpec& spec, std::size_t field, const ConstBufferView& values) {
  check_values(spec.fields[field], values, count);
  append(columns[field], values);
}

RawSamples labeled_samples(ByteBuffer data, std::span<const std::int64_t> labels, std::vector<std::int64_t> offsets) {
  RawSamples samples;
  samples.count = std::ssize(labels);
  samples.columns.resize(2);
  RawColumn& first = samples.columns[0];
  first.sample_bytes = !offsets.empty() || labels.empty() ? 0 : std::ssize(data) / std::ssize(labels);
  first.bytes = std::move(data);
  first.offsets = std::move(offsets);
  const auto bytes = std::as_bytes(labels);
  samples.columns[1].bytes.assign(bytes.begin(), bytes.end());
  samples.columns[1].sample_bytes = sizeof(std::int64_t);
  return samples;
}

void copy_samples(const SampleSpec& spec, std::span<const SamplePlace> places, RawSamples& out) {
  const std::int64_t n = std::ssize(places);
  out.reset(spec, n);
  for (std::size_t f = 0; f < out.columns.size(); ++f) {
    RawColumn& column = out.columns[f];
    const bool varies = !column.offsets.empty();
    const auto source = [&](std::int64_t k) { return places[k].samples->columns[f].sample(places[k].number); };
    for (std::int64_t k = 0; varies && k < n; ++k) {
      column.offsets.push_back(column.offsets.back() + static_cast<std::int64_t>(source(k).size()));
    }
    if (varies) column.bytes.resize(column.offsets.back());
    for (std::int64_t k = 0; k < n; ++k) {
      const auto from = source(k);
      std::byte* to = column.bytes.data() + (varies ? column.offsets[k] : k * column.sample_bytes);
      if (!from.empty()) std::memcpy(to, from.data(), from.size());
    }
  }
}

void check_samples(const RawSamples& samples, SampleSpec& spec) {
  if (const std::string problem = problem_of(spec); !problem.empty())
    throw ArgumentError("a dataset's samples: " + problem);
  if (samples.columns.size() != spec.fields.size()) {
    throw ArgumentError("samples of " + std::to_string(spec.fields.size()) + " fields have " +
                        std::to_string(samples.columns.size()) + " columns");
  }
  for (std::size_t f = 0; f < spec.fields.size(); ++f) {
    check_column(samples.columns[f], spec.fields[f], samples.count);
    check_classes(samples.columns[f], spec.fields[f]);
  }
}

}  // namespace mn
