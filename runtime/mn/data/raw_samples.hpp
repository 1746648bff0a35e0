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
  std::vector<std::int64_t> offsets;  ///< [n + 1] sample i is bytes [offsets[i], offsets[i + 1]); fixed fields: none
  std::int64_t sample_bytes = 0;      ///< size of a sample of a fixed field

  /// The bytes of sample i.
  [[nodiscard]] std::span<const std::byte> sample(std::int64_t i) const {
    if (offsets.empty()) return std::span(bytes).subspan(i * sample_bytes, sample_bytes);
    return std::span(bytes).subspan(offsets[i], offsets[i + 1] - offsets[i]);
  }
  /// The elements of all samples; T is the field's dtype.
  template <class T>
  [[nodiscard]] std::span<const T> values() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

/// The samples of one read, in the order asked for. Reuse the object for the next read: it keeps its memory.
struct RawSamples {
  std::int64_t count = 0;          ///< samples
  std::vector<RawColumn> columns;  ///< [fields] in the spec's order

  /// No samples, no columns.
  RawSamples() = default;
  /// No samples; the columns are ready for add().
  explicit RawSamples(const SampleSpec& spec) { reset(spec, 0); }

  /// Number of samples.
  [[nodiscard]] std::int64_t size() const noexcept { return count; }
  /// Bytes of all columns.
  [[nodiscard]] std::int64_t bytes() const noexcept;
  /// The bytes of a field of sample i.
  [[nodiscard]] std::span<const std::byte> sample(std::size_t field, std::int64_t i) const {
    return columns[field].sample(i);
  }

  /// Makes room for n samples: columns of fixed fields have their full length, the others are empty, with a first
  /// offset of 0.
  void reset(const SampleSpec& spec, std::int64_t n);
  /// Adds a sample: the values of each field, in C order and the machine's byte order. Throws ArgumentError that names
  /// a field whose dtype or length mismatches, and adds nothing then.
  void add(const SampleSpec& spec, std::span<const ConstBufferView> fields);
  /// Adds the values of one field. The caller raises `count` after the last field. Throws ArgumentError as add() does.
  void add_values(const SampleSpec& spec, std::size_t field, const ConstBufferView& values);
  /// add() for an initializer list.
  void add(const SampleSpec& spec, std::initializer_list<ConstBufferView> fields) {
    add(spec, std::span(fields.begin(), fields.size()));
  }
};

/// Samples of labeled() specs: all data, back to back, and the labels; `offsets` [n + 1] in bytes unless data is fixed.
[[nodiscard]] RawSamples labeled_samples(ByteBuffer data, std::span<const std::int64_t> labels,
                                         std::vector<std::int64_t> offsets = {});

/// One sample among others in memory.
struct SamplePlace {
  const RawSamples* samples;  ///< not null
  std::int64_t number;        ///< of the sample in `samples`
};

/// Makes `out` of copies of the samples in `places`, all of `spec`.
void copy_samples(const SampleSpec& spec, std::span<const SamplePlace> places, RawSamples& out);

/// Throws ArgumentError unless `samples` has the columns of `spec`: lengths match, and values of class fields are
/// classes. Sets the number of classes in `spec` if it is kCountClasses.
void check_samples(const RawSamples& samples, SampleSpec& spec);

}  // namespace mn
