/// Samples as bytes: one column for each field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include <mn/core/buffer.hpp>
#include <mn/core/uninitialized.hpp>
#include <mn/data/sample_spec.hpp>

namespace mn {

/// One field of some samples.
struct RawColumn {
  ByteBuffer bytes;                   ///< the samples, back to back
  std::vector<std::int64_t> offsets;  ///< [n + 1] sample i is bytes [offsets[i], offsets[i + 1]); empty if fixed
  std::int64_t sample_bytes = 0;      ///< size of a sample of a fixed field

  /// The bytes of sample i.
  [[nodiscard]] std::span<const std::byte> sample(std::int64_t i) const {
    if (offsets.empty()) return std::span(bytes).subspan(i * sample_bytes, sample_bytes);
    return std::span(bytes).subspan(offsets[i], offsets[i + 1] - offsets[i]);
  }
  /// The elements of all samples. T must be the type of the field's dtype.
  template <class T>
  [[nodiscard]] std::span<const T> values() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

/// The samples of one read, in the order of its indices. Reuse the object, because it keeps its memory.
struct RawSamples {
  std::int64_t count = 0;          ///< samples
  std::vector<RawColumn> columns;  ///< [fields] in the spec's order

  /// Makes an object without samples and columns.
  RawSamples() = default;
  /// Makes an object without samples, whose columns are ready for add().
  explicit RawSamples(const SampleSpec& spec) { reset(spec, 0); }

  /// Number of samples.
  [[nodiscard]] std::int64_t size() const noexcept { return count; }
  /// Bytes of all columns.
  [[nodiscard]] std::int64_t bytes() const noexcept;
  /// The bytes of a field of sample i.
  [[nodiscard]] std::span<const std::byte> sample(std::size_t field, std::int64_t i) const {
    return columns[field].sample(i);
  }

  /// Makes room for n samples in the columns of fixed fields. All other columns become empty, with offsets {0}.
  void reset(const SampleSpec& spec, std::int64_t n);
  /// Adds a sample: the values of each field, in C order and the machine's byte order. If a field's dtype or length
  /// mismatches the spec, adds nothing and throws an ArgumentError that names the field.
  void add(const SampleSpec& spec, std::span<const ConstBufferView> fields);
  /// Adds the values of one field. After the last field, the caller must raise `count`. Throws as add() does.
  void add_values(const SampleSpec& spec, std::size_t field, const ConstBufferView& values);
  /// The same as add(spec, fields) for an initializer list.
  void add(const SampleSpec& spec, std::initializer_list<ConstBufferView> fields) {
    add(spec, std::span(fields.begin(), fields.size()));
  }
};

/// Makes samples of a labeled() spec. `data` has the data of all samples, back to back. If the data field is not fixed,
/// `offsets` has n + 1 numbers: the position in `data` of each sample's first byte, and the end of `data`.
[[nodiscard]] RawSamples labeled_samples(ByteBuffer data, std::span<const std::int64_t> labels,
                                         std::vector<std::int64_t> offsets = {});

/// One sample among others in memory.
struct SamplePlace {
  const RawSamples* samples;  ///< not null
  std::int64_t number;        ///< number of the sample in `samples`
};

/// Fills `out` with copies of the samples at `places`. All samples have the spec `spec`.
void copy_samples(const SampleSpec& spec, std::span<const SamplePlace> places, RawSamples& out);

/// Throws ArgumentError unless the columns of `samples` have the lengths that `spec` demands, and the values of class
/// fields are classes. If a number of classes in `spec` is kCountClasses, sets it to the largest class + 1.
void check_samples(const RawSamples& samples, SampleSpec& spec);

}  // namespace mn
