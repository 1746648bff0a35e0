// The files of a conversion besides its shards, in the order of their creation and removal:
//
//   scratch folder   plan   mark   shards   signs of ranks   manifests   − scratch folder   − mark
//
// (1) A conversion stopped after any step resumes: from the plan without the mark, from the shards with it.
// (2) Shards and manifests exist only with the mark, or after the end.
// (3) Files of another conversion are never touched.
#include "data/conversion_folder.hpp"

#include <unistd.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>

namespace mn::data {
namespace {

namespace fs = std::filesystem;

/// The reason why a conversion can't use the folder; empty if it can.
std::string obstacle_in(const fs::path& folder) {
  constexpr const char* kElsewhere = ", or choose another folder with --out";
  std::error_code error;
  if (fs::exists(folder / kDatasetManifest, error)) {
    return folder.string() + " holds a dataset already: remove it" + kElsewhere;
  }
  if (!fs::exists(folder, error)) return "";
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".h5") continue;
    return folder.string() + " holds shards of no resumable conversion (" + entry.path().filename().string() +
           "): remove them" + kElsewhere;
  }
  return "";
}

bool is_sign_of_rank(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.starts_with("rank-") || name.starts_with(".rank-");
}

}  // namespace

ConversionFolder::ConversionFolder(const fs::path& out, const Conversion& conversion)
    : mark_(out / "conversion.json"),
      scratch_(out / ".conversion"),
      request_(json_text(conversion.request(), 2) + "\n") {
  make_folders(scratch_);
}

ConversionFolder::~ConversionFolder() { ::rmdir(scratch_.c_str()); }

bool ConversionFolder::is_claimed() const {
  std::error_code error;
  try {
    return fs::exists(mark_, error) && read_file(mark_) == request_;
  } catch (const DataError&) {
    return false;  // removed in between
  }
}

void ConversionFolder::check_free(const Conversion& conversion) const {
  if (is_claimed()) {  // remove a killed run's leftovers
    for (const Output& output : conversion.outputs()) remove_abandoned_files(output.folder);
    return;
  }
  std::string obstacle;
  if (fs::exists(mark_)) {
    obstacle = mark_.parent_path().string() +
               " holds the beginnings of another conversion (conversion.json says which): remove it, or choose another "
               "folder with --out";
  }
  for (const Output& output : conversion.outputs()) {
    if (obstacle.empty()) obstacle = obstacle_in(output.folder);
  }
  // The obstacle may be files that other ranks of this conversion have just made.
  if (!obstacle.empty() && !is_claimed()) throw UsageError(obstacle);
}

void ConversionFolder::plan(Conversion& conversion) const {
  clear_scratch();
  conversion.plan(scratch_);
}

void ConversionFolder::claim() const { write_file(mark_, request_); }

bool ConversionFolder::is_complete(const Conversion& conversion) const {
  std::error_code error;
  return std::ranges::all_of(conversion.outputs(),
                             [&](const Output& output) { return fs::exists(output.folder / kDatasetManifest, error); });
}

void ConversionFolder::leave() const {
  std::error_code ignored;
  fs::remove_all(scratch_, ignored);
  fs::remove(mark_, ignored);
}

void ConversionFolder::clear_scratch() const {
  for (const auto& entry : fs::directory_iterator(scratch_)) {
    if (!is_sign_of_rank(entry.path())) fs::remove_all(entry.path());
  }
}

}  // namespace mn::data
