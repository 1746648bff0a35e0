/// Datasets whose samples a function of the program makes.
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

/// Writes one sample. Each field must be set once.
class SampleWriter {
 public:
  /// Begins a sample, which is appended to `samples`. `samples` must have the columns of `spec`.
  SampleWriter(const SampleSpec& spec, RawSamples& samples);

  /// Sets a field's values, given in C order as a span, vector or array in host memory. Throws ArgumentError if there
  /// is no such field, if the field was set before, if dtype or length mismatch the spec, or if a value of a class
  /// field is not a class.
  void set(std::string_view field, const ConstBufferView& values) { set(spec_.position(field), values); }
  /// Sets the field at position `field` of the spec; throws like set() above.
  void set(std::size_t field, const ConstBufferView& values);
  /// Sets a field that is a single number of dtype T; `field` is a name or a position.
  template <class Field, class T>
  requires(std::integral<T> || std::floating_point<T>) void set(const Field& field, T value) {
    set(field, std::span(&value, 1));
  }
  /// Ends the sample. If a field has no value, throws an ArgumentError that names the field.
  void finish();

 private:
  const SampleSpec& spec_;
  RawSamples& samples_;
  std::vector<bool> is_set_;
};

/// Makes sample `index`. Several threads call the function at once, and each read of the sample calls it again, so the
/// sample must depend on the index alone. If the function throws DataError, the sample counts as damaged.
using SampleFunction = std::function<void(std::int64_t index, SampleWriter& sample)>;

/// Makes a dataset of `size` samples, each of which `function` makes when it is read. Throws ArgumentError if the spec
/// is not valid.
///
/// If `format` is empty, scatter_dataset() makes all samples on the root and sends each rank its part. If every rank
/// can call the function, choose a name for `format`, and pass {`format`, a function that makes this dataset} to
/// scatter_dataset() as a TableOpener. Then each rank makes its own samples, and no sample is sent.
[[nodiscard]] std::shared_ptr<Dataset> make_dataset(std::int64_t size, SampleSpec spec, SampleFunction function,
                                                    std::string format = {});

}  // namespace mn
