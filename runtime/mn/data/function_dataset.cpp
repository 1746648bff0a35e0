#include <mn/data/function_dataset.hpp>

#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/data/classes.hpp>

namespace mn {
namespace {

class FunctionDataset final : public Dataset {
 public:
  FunctionDataset(std::int64_t size, SampleSpec spec, SampleFunction function, std::string format)
      : size_(size), spec_(std::move(spec)), function_(std::move(function)), format_(std::move(format)) {}

 private:
  std::int64_t do_size() const override { return size_; }
  const SampleSpec& do_spec() const override { return spec_; }
  void do_read(std::span<const std::int64_t> indices, RawSamples& out,
               std::vector<SampleError>* damaged) const override {
    out.reset(spec_, 0);
    for (const std::int64_t index : indices) {
      try {
        add(index, out);
      } catch (const DataError& error) {
        if (damaged == nullptr) throw;
        damaged->push_back({out.size(), where(index) + ": " + error.what()});
        add_empty(out);
      }
      ++out.count;
    }
  }
  std::string do_format() const override { return format_; }
  std::string do_table() const override {
    return format_.empty() ? "" : json_text({{"size", size_}, {"spec", to_json(spec_)}});
  }
  std::uint64_t do_fingerprint() const override { return hash64(format_, hash64(json_text(to_json(spec_)), size_)); }

  void add(std::int64_t index, RawSamples& out) const {
    SampleWriter writer(spec_, out);
    function_(index, writer);
    writer.finish();
  }

  /// Makes the current sample empty. Discards fields that the function has set already.
  void add_empty(RawSamples& out) const {
    for (RawColumn& column : out.columns) {
      if (column.offsets.empty()) {
        column.bytes.resize(out.count * column.sample_bytes);
        column.bytes.insert(column.bytes.end(), column.sample_bytes, std::byte{0});
      } else {
        column.offsets.resize(out.count + 1);
        column.bytes.resize(column.offsets.back());
        column.offsets.push_back(column.offsets.back());
      }
    }
  }

  std::int64_t size_;
  SampleSpec spec_;
  SampleFunction function_;
  std::string format_;
};

}  // namespace

SampleWriter::SampleWriter(const SampleSpec& spec, RawSamples& samples)
    : spec_(spec), samples_(samples), is_set_(spec.fields.size(), false) {}

void SampleWriter::set(std::size_t field, const ConstBufferView& values) {
  const FieldSpec& spec = spec_[field];
  if (is_set_[field]) throw ArgumentError("field " + spec.name + " of a sample is set twice");
  samples_.add_values(spec_, field, values);
  is_set_[field] = true;
  if (spec.num_classes == 0) return;
  const data::ClassRange range =
      data::range_of(spec.dtype, {static_cast<const std::byte*>(values.data), values.bytes()});
  if (range.is_in(spec.num_classes)) return;
  throw ArgumentError("field " + spec.name + " of a sample is " + range.outlier() + ", but has the classes 0 to " +
                      std::to_string(spec.num_classes - 1));
}

void SampleWriter::finish() {
  for (std::size_t f = 0; f < is_set_.size(); ++f) {
    if (!is_set_[f]) throw ArgumentError("field " + spec_[f].name + " of a sample is not set");
  }
}

std::shared_ptr<Dataset> make_dataset(std::int64_t size, SampleSpec spec, SampleFunction function, std::string format) {
  std::string problem = problem_of(spec);
  for (const FieldSpec& field : spec.fields) {
    if (field.num_classes < 0) problem = "field " + field.name + ": the number of its classes must be given";
  }
  if (size < 0) problem = std::to_string(size) + " samples";
  if (!function) problem = "no function";
  if (!problem.empty()) throw ArgumentError("make_dataset: " + problem);
  return std::make_shared<FunctionDataset>(size, std::move(spec), std::move(function), std::move(format));
}

}  // namespace mn
