/// Makes the table for `mnshard index`: a manifest of ordinary HDF5 files, which stay unchanged.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <mn/data/hdf5_table.hpp>

namespace mn::data {

/// A field's name, and its HDF5 dataset in each file.
struct IndexField {
  std::string name;
  std::string path;
};

/// Parses "NAME=/group/dataset". Throws UsageError for another form.
[[nodiscard]] IndexField parse_index_field(const std::string& text);

/// Makes the table of `files` for a manifest in `folder`, which must exist. Throws a DataError of one line that names
/// the file and the problem if a dataset is missing, differs from the first file's dataset, has elements for which mn
/// has no dtype, has a filter that mn can't undo, or lies outside the file.
[[nodiscard]] Hdf5Table index_files(const std::vector<std::filesystem::path>& files,
                                    const std::vector<IndexField>& fields, const std::filesystem::path& folder,
                                    const std::string& split);

/// Returns the table with the values of the field `name` as classes. Reads the field in all files: the number of
/// classes is the largest value + 1. Throws UsageError if there is no such field or its values are not integers, and
/// DataError if a value is negative or too large for a class.
[[nodiscard]] Hdf5Table with_classes(const Hdf5Table& table, const std::string& name);

/// Throws DataError if a file has samples, but a field was never written (perhaps its writer was killed).
void check_written(const Hdf5Table& table);

/// A line about the cost of reading a sample of a field. If it is high, recommends a better layout.
[[nodiscard]] std::string cost_of(const Hdf5Table& table, std::size_t field);

}  // namespace mn::data
