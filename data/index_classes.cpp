// Counts the classes of a field of class numbers (--class-field) in indexed HDF5 files. HDF5 does not record the
// number, so all values are read. Also checks that each field has values in each file.
#include "data/index_files.hpp"

#include <algorithm>

#include <mn/core/error.hpp>
#include <mn/data/classes.hpp>

#include "data/extract.hpp"

namespace mn::data {
namespace {

ClassRange range_in(const Hdf5Table& table, std::size_t file, std::size_t f) {
  const FieldSpec& field = table.spec()[f];
  const auto reader = table.open_alone(file);
  ClassRange range;
  for (std::int64_t block = 0; block < reader->num_blocks(f); ++block) {
    const ClassRange own = range_of(field.dtype, *reader->load_block(f, block));
    range.least = std::min(range.least, own.least);
    range.most = std::max(range.most, own.most);
    if (own.is_in(kMaxClasses)) continue;
    throw DataError(table.path(file).string() + ": field " + field.name + " has the value " + own.outlier() +
                    ", but classes are 0 to " + std::to_string(kMaxClasses - 1) +
                    ": number them, or leave --class-field out");
  }
  return range;
}

}  // namespace

Hdf5Table with_classes(const Hdf5Table& table, const std::string& name) {
  SampleSpec spec = table.spec();
  const std::size_t f = field_position(spec, name, "--class-field");
  FieldSpec& field = spec.fields[f];
  field.num_classes = 1;
  if (const std::string problem = problem_of(spec); !problem.empty()) {
    throw UsageError("--class-field " + name + ": " + problem);
  }
  for (std::size_t file = 0; file < table.files().size(); ++file) {
    field.num_classes = std::max(field.num_classes, range_in(table, file, f).most + 1);
  }
  return {table.folder(), table.split(), std::move(spec), table.files()};
}

void check_written(const Hdf5Table& table) {
  for (std::size_t file = 0; file < table.files().size(); ++file) {
    const Hdf5File& indexed = table.files()[file];
    for (std::size_t f = 0; f < indexed.arrays.size(); ++f) {
      const Hdf5Array& array = indexed.arrays[f];
      const FieldSpec& field = table.spec()[f];
      if (indexed.num_samples == 0 || field.sample_bytes() == 0) continue;
      bool is_written = array.chunk.empty() && array.address != kNotStored;
      array.chunks.for_each([&](const StoredChunk& chunk) { is_written |= chunk.address != kNotStored; });
      if (is_written) continue;
      throw DataError(table.path(file).string() + ": field " + field.name + " was never written: each of its " +
                      std::to_string(indexed.num_samples) +
                      " samples would be the fill value. If its writer was killed, write the file again; "
                      "--unwritten fill takes it as it is");
    }
  }
}

}  // namespace mn::data
