#include <mn/loader/class_values.hpp>

#include <algorithm>
#include <numeric>
#include <string>

#include <mn/comm/on_every_rank.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/data/classes.hpp>

namespace mn {
namespace {

constexpr std::int64_t kSamplesOfARead = 4096;

std::size_t class_field(const SampleSpec& spec) {
  const auto is_class = [](const FieldSpec& field) {
    return field.num_classes > 0 && field.kind == FieldKind::kFixed && field.shape.empty();
  };
  const auto found = std::ranges::find_if(spec.fields, is_class);
  if (found == spec.fields.end()) {
    throw UsageError(
        "no field of the samples is a class, one integer for each sample, so they can't be balanced: "
        "`mnshard index --class-field NAME` makes a field of HDF5 files such a field");
  }
  return static_cast<std::size_t>(found - spec.fields.begin());
}

/// Writes the classes of samples first … last − 1 to classes[first … last − 1].
void read_part(const Dataset& dataset, std::int64_t first, std::int64_t last, std::vector<std::int64_t>& classes) {
  const std::size_t field = class_field(dataset.spec());
  for (; first < last; first += kSamplesOfARead) {
    std::vector<std::int64_t> indices(std::min(kSamplesOfARead, last - first));
    std::iota(indices.begin(), indices.end(), first);
    const RawColumn column = dataset.read_field(indices, field);
    std::ranges::copy(data::integers_of(dataset.spec()[field].dtype, column.bytes), &classes[first]);
  }
}

}  // namespace

std::vector<std::int64_t> read_classes(const SubDataset& dataset, Communicator& comm) {
  if (!dataset.shared())
    throw UsageError(
        "classes are balanced in datasets of which each rank can read each sample: "
        "share_dataset() divides such a dataset, but scatter_dataset() may send samples");
  (void)class_field(dataset.spec());
  const std::int64_t n = dataset.global_size();
  std::vector<std::int64_t> classes(n);
  const auto read = [&] {
    read_part(*dataset.shared(), n * comm.rank() / comm.size(), n * (comm.rank() + 1) / comm.size(), classes);
  };
  on_every_rank<DataError>(comm, read, true);
  comm.allreduce(classes);
  return classes;
}

}  // namespace mn
