/// Datasets whose samples a function makes.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mn/data/dataset.hpp>

namespace mn {

/// One sample that is being made: each of its fields has to be set, once.
class SampleWriter {
 public:
  /// Adds to `samples`, whose columns are those of `spec`.
  SampleWriter(const SampleSpec& spec, RawSamples& samples);

  /// The values of a field, in C order: of a span, vector or array on the host. Throws ArgumentError if there is no
  /// such field, if it was set before, if dtype or length mismatch the spec, or if a number is not a class.
  void set(std::string_view field, const ConstBufferView& values) { set(spec_.position(field), values); }
  /// The same by position.
  void set(std::size_t field, const ConstBufferView& values);
  /// A number, for a field of that dtype without a shape; `field` is a name or a position.
  template <class Field, class T>
  requires(std::integral<T> || std::floating_point<T>) void set(const Field& field, T value) {
    set(field, std::span(&value, 1));
  }
  /// Throws ArgumentError that names a field that was not set.
  void finish();

 private:
  const SampleSpec& spec_;
  RawSamples& samples_;
  std::vector<bool> is_set_;
};

/// Makes sample `index`. Called from several threads at a time, and for the same index as often as it is read: the
/// sample must depend on the index alone. A DataError means that this sample is damaged.
using SampleFunction = std::function<void(std::int64_t index, SampleWriter& sample)>;

/// `size` samples, each made by `function` when it is read. Throws ArgumentError if the spec can't be.
///
/// scatter_dataset makes them on the root and sends each rank its part, once. Where every rank can call the function,
/// give the data a name as `format`, and every rank an opener of that name which makes the same dataset: then nothing
/// is sent, and each rank makes its samples when it uses them.
[[nodiscard]] std::shared_ptr<Dataset> make_dataset(std::int64_t size, SampleSpec spec, SampleFunction function,
                                                    std::string format = {});

}  // namespace mn
