/// Datasets made by a function.
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

/// One sample under construction. Each field must be set once.
class SampleWriter {
 public:
  /// Adds to `samples`, which has the columns of `spec`.
  SampleWriter(const SampleSpec& spec, RawSamples& samples);

  /// The values of a field, in C order: of a span, vector or array on the host. Throws ArgumentError if there is no
  /// such field, if it was set before, if dtype or length mismatch the spec, or if a number is not a class.
  void set(std::string_view field, const ConstBufferView& values) { set(spec_.position(field), values); }
  /// set() by position.
  void set(std::size_t field, const ConstBufferView& values);
  /// A number, for a field of that dtype without a shape; `field` is a name or a position.
  template <class Field, class T>
  requires(std::integral<T> || std::floating_point<T>) void set(const Field& field, T value) {
    set(field, std::span(&value, 1));
  }
  /// Throws ArgumentError that names a field without a value.
  void finish();

 private:
  const SampleSpec& spec_;
  RawSamples& samples_;
  std::vector<bool> is_set_;
};

/// Makes sample `index`. Called on several threads, and again for each read of an index: the sample must depend on the
/// index alone. A DataError marks the sample as damaged.
using SampleFunction = std::function<void(std::int64_t index, SampleWriter& sample)>;

/// `size` samples, each made by `function` when it is read. Throws ArgumentError if the spec is not valid.
///
/// scatter_dataset makes all samples on the root and sends each rank its part. If every rank can call the function,
/// name the data by `format`, and give scatter_dataset an opener of this name that makes the dataset: each rank then
/// makes its samples itself, and no sample is sent.
[[nodiscard]] std::shared_ptr<Dataset> make_dataset(std::int64_t size, SampleSpec spec, SampleFunction function,
                                                    std::string format = {});

}  // namespace mn
