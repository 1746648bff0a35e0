#include <iostream>

#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/launcher_variables.hpp>
#include <mn/data/hdf5_table.hpp>

#include "data/commands.hpp"
#include "data/index_files.hpp"

namespace mn::data {
namespace {

void print_index(const Hdf5Table& table) {
  std::cout << table.folder() << ": " << table.num_samples() << " samples in " << table.files().size()
            << (table.files().size() == 1 ? " file, " : " files, ") << table.total_bytes() << " bytes\n";
  for (std::size_t f = 0; f < table.spec().fields.size(); ++f) std::cout << "  " << cost_of(table, f) << "\n";
}

}  // namespace

int run_index(Arguments arguments, const Settings& settings) {
  if (job_rank_of_environment(environment).rank > 0) return 0;  // only rank 0 makes the index
  if (settings.out.empty()) throw UsageError("--out DIR is missing: where shall the manifest go?");
  if (settings.fields.empty()) throw UsageError("--field NAME=/PATH/IN/FILE is missing: what is a sample?");
  if (std::filesystem::exists(std::filesystem::path(settings.out) / kDatasetManifest)) {
    throw UsageError(settings.out + " holds a dataset already");
  }
  std::vector<IndexField> fields;
  for (const std::string& text : settings.fields) fields.push_back(parse_index_field(text));
  Hdf5Table table = index_files({arguments.begin(), arguments.end()}, fields, settings.out, settings.split);
  if (settings.unwritten == "fail") check_written(table);
  for (const std::string& name : settings.class_fields) table = with_classes(table, name);
  make_folders(settings.out);
  write_hdf5_manifest(table);
  print_index(table);
  return 0;
}

int info_index(const std::filesystem::path& folder) {
  const Hdf5Table table = read_hdf5_manifest(folder);
  print_index(table);
  std::cout << "split: " << table.split() << "\nfiles:\n";
  for (std::size_t i = 0; i < table.files().size(); ++i) {
    std::cout << "  " << table.path(i).string() << "  " << table.files()[i].num_samples << " samples  "
              << table.files()[i].bytes << " bytes\n";
  }
  return 0;
}

}  // namespace mn::data
