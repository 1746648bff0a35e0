#include "data/convert.hpp"

#include <algorithm>

#include <mn/core/error.hpp>
#include <mn/core/text.hpp>
#include <mn/data/classes.hpp>

#include "data/fixed_conversion.hpp"
#include "data/npy.hpp"

namespace mn::data {
namespace {

namespace fs = std::filesystem;

DType stored_dtype(const NpyArray& array) {
  const std::string name = array.header().dtype();
  if (const auto dtype = dtype_named(name)) return *dtype;
  throw DataError(array.name() + " holds " + name + ", which shards do not: convert it with numpy's astype, e.g. to " +
                  "float32");
}

class NpySamples final : public SampleSource {
 public:
  NpySamples(NpyArray samples, NpyArray labels) : samples_(std::move(samples)), labels_(std::move(labels)) {
    const auto& shape = samples_.header().shape;
    spec_ = labeled({.dtype = stored_dtype(samples_), .shape = {shape.begin() + 1, shape.end()}});
    if (samples_.header().row_elements() == 0) throw DataError(samples_.name() + " has samples without elements");
    if (static_cast<std::uint64_t>(spec_.sample_bytes()) > kSampleBytesLimit) {
      throw DataError(samples_.name() + " has samples of more than 1 GiB, which no shard holds");
    }
    if (labels_.header().kind == 'f') {
      throw DataError(labels_.name() + " holds " + labels_.header().dtype() + ": labels are integers");
    }
    if (labels_.header().row_elements() != 1) throw DataError(labels_.name() + " has more than one label a sample");
    if (samples_.rows() != labels_.rows()) {
      throw DataError(samples_.name() + " holds " + std::to_string(samples_.rows()) + " samples, " + labels_.name() +
                      " " + std::to_string(labels_.rows()) + " labels: they do not belong together");
    }
  }

  [[nodiscard]] std::int64_t size() const override { return samples_.rows(); }
  [[nodiscard]] const SampleSpec& spec() const override { return spec_; }
  [[nodiscard]] std::string name() const override { return labels_.name(); }

  void read(std::int64_t first, std::int64_t last, RawSamples& samples) const override {
    ByteBuffer bytes((last - first) * samples_.header().row_bytes());
    samples_.read_rows(first, last, bytes);
    samples = labeled_samples(std::move(bytes), read_labels(first, last));
  }

  void check() const override {
    constexpr std::int64_t kAtOnce = 1 << 16;
    for (std::int64_t first = 0; first < size(); first += kAtOnce) {
      check_labels(read_labels(first, std::min(first + kAtOnce, size())), first, name());
    }
  }

 private:
  [[nodiscard]] std::vector<std::int64_t> read_labels(std::int64_t first, std::int64_t last) const {
    const NpyHeader& header = labels_.header();
    std::vector<std::byte> stored((last - first) * header.item_bytes);
    labels_.read_rows(first, last, stored);
    const DType dtype = header.kind == 'b' ? DType::kUInt8 : dtype_named(header.dtype()).value();
    std::vector<std::int64_t> labels = integers_of(dtype, stored);
    const auto wrong = std::ranges::find_if(labels, [](std::int64_t label) { return label < 0; });
    if (header.kind == 'u' && wrong != labels.end()) {  // a uint64 above int64's maximum
      throw wrong_label(name(), first + (wrong - labels.begin()), std::to_string(static_cast<std::uint64_t>(*wrong)));
    }
    return labels;
  }

  NpyArray samples_;
  NpyArray labels_;
  SampleSpec spec_;
};

/// Opens the array `name` of an .npz file. If it is compressed, the first call unpacks it into a file in `scratch`, and
/// later calls open this file.
NpyArray open_member(const std::shared_ptr<const File>& npz, const std::string& name, const fs::path& scratch) {
  const auto members = read_zip_directory(*npz, "numpy.savez");
  const auto member = std::ranges::find(members, name + ".npy", &ZipMember::name);
  const std::string file = npz->path().string();
  if (member == members.end()) {
    std::vector<std::string> names;
    for (const ZipMember& other : members) {
      if (other.name.ends_with(".npy")) names.push_back(other.name.substr(0, other.name.size() - 4));
    }
    throw DataError(file + " has no array \"" + name + "\", but " + (names.empty() ? "none" : join(names)) +
                    ": choose with --x and --y");
  }
  const std::string shown = file + ": " + name;
  if (member->method == ZipMember::Method::kStored) return {npz, member->begin, member->bytes, shown};
  if (member->method == ZipMember::Method::kOther) {
    throw DataError(shown + " is encrypted, or packed by another method than deflate: write it again with " +
                    "numpy.savez or numpy.savez_compressed");
  }
  const fs::path unpacked = scratch / ("member-" + std::to_string(member - members.begin()));
  if (!fs::exists(unpacked)) unzip(*npz, *member, unpacked);
  return {std::make_shared<const File>(unpacked, File::Mode::kRead), 0, member->bytes, shown};
}

ConversionResult convert_arrays(nlohmann::json request, const std::string& converter, const std::string& source,
                                decltype(FixedSplit::open) open, const ConvertOptions& options) {
  FixedConversion conversion({{.output = {options.out, options.split},
                               .request = std::move(request),
                               .attributes = {{"converter", converter}, {"source", source}},
                               .open = std::move(open)}},
                             options.shard_bytes);
  return run_conversion(conversion, options);
}

}  // namespace

ConversionResult convert_npy(const fs::path& samples, const fs::path& labels, const ConvertOptions& options) {
  return convert_arrays(
      nlohmann::json::array({source_facts(samples), source_facts(labels)}), "mnshard npy",
      samples.filename().string() + ", " + labels.filename().string(),
      [&](const fs::path&) { return std::make_shared<NpySamples>(open_npy(samples), open_npy(labels)); }, options);
}

ConversionResult convert_npz(const fs::path& file, const std::string& samples, const std::string& labels,
                             const ConvertOptions& options) {
  return convert_arrays(
      nlohmann::json::array({source_facts(file), samples, labels}), "mnshard npz",
      file.filename().string() + ": " + samples + ", " + labels,
      [&](const fs::path& scratch) {
        const auto npz = std::make_shared<const File>(file, File::Mode::kRead);
        return std::make_shared<NpySamples>(open_member(npz, samples, scratch), open_member(npz, labels, scratch));
      },
      options);
}

}  // namespace mn::data
