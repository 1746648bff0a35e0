#include "data/token_sources.hpp"

#include <algorithm>
#include <set>

#include <glob.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>

#include "data/documents.hpp"
#include "data/find_images.hpp"
#include "data/parquet.hpp"
#include "data/token_files.hpp"

namespace mn::data {
namespace {

namespace fs = std::filesystem;

/// The name without the ending of a packed file.
std::string unpacked_name(const fs::path& path) {
  const std::string ending = path.extension().string();
  const bool is_packed = ending == ".gz" || ending == ".zst" || ending == ".xz";
  return (is_packed ? path.stem() : path.filename()).string();
}

SourceKind kind_of(const fs::path& path) {
  const std::string ending = fs::path(unpacked_name(path)).extension().string();
  if (ending == ".jsonl" || ending == ".ndjson") return SourceKind::kJsonLines;
  if (ending == ".parquet") return SourceKind::kParquet;
  if (ending != ".bin") return SourceKind::kText;
  return fs::exists(index_of(path)) ? SourceKind::kIndexedTokens : SourceKind::kTokens;
}

void add_folder(const fs::path& folder, std::set<fs::path>& seen, std::vector<TokenSource>& sources) {
  if (!seen.insert(fs::canonical(folder)).second) return;  // a link may lead to a folder above
  const FolderNames names = list_names(folder);
  for (const std::string& name : names.files) {
    const SourceKind kind = kind_of(folder / name);
    const bool is_text = unpacked_name(name).ends_with(".txt");
    if (kind != SourceKind::kText || is_text) sources.push_back({folder / name, kind});
  }
  for (const std::string& name : names.folders) add_folder(folder / name, seen, sources);
}

void add_matches(const std::string& pattern, std::vector<TokenSource>& sources) {
  glob_t found = {};
  const int status = ::glob(pattern.c_str(), 0, nullptr, &found);
  const std::vector<fs::path> paths(found.gl_pathv, found.gl_pathv + (status == 0 ? found.gl_pathc : 0));
  ::globfree(&found);
  if (paths.empty()) throw DataError("no file is named like " + pattern, true);
  for (const fs::path& path : paths) {
    if (fs::is_regular_file(path) && path.extension() != ".idx") sources.push_back({path, kind_of(path)});
  }
}

void add_named(const std::string& name, std::vector<TokenSource>& sources) {
  std::error_code error;
  if (fs::is_directory(name, error)) {
    const std::size_t before = sources.size();
    std::set<fs::path> seen;
    add_folder(name, seen, sources);
    if (sources.size() == before) {
      throw DataError("there is no .txt, .jsonl, .parquet or .bin file in " + name, true);
    }
    return;
  }
  const fs::path path =
      fs::path(name).extension() == ".idx" ? fs::path(name).replace_extension(".bin") : fs::path(name);
  if (fs::is_regular_file(path, error)) {
    sources.push_back({path, kind_of(path)});
  } else if (name.find_first_of("*?[") != std::string::npos) {
    add_matches(name, sources);
  } else {
    throw DataError("there is no file " + path.string(), true);
  }
}

}  // namespace

std::vector<TokenSource> find_sources(const std::vector<std::string>& arguments) {
  std::vector<TokenSource> sources;
  try {
    for (const std::string& name : arguments) add_named(name, sources);
  } catch (const fs::filesystem_error& error) {
    throw DataError(std::string("cannot list files: ") + error.what());
  }
  return sources;
}

std::vector<TextPiece> cut_sources(const std::vector<TokenSource>& sources, const CutOptions& options) {
  std::vector<TextPiece> pieces;
  for (std::size_t f = 0; f < sources.size(); ++f) {
    const fs::path& path = sources[f].path;
    switch (sources[f].kind) {
      case SourceKind::kText:
        cut_text(path, f, options.vocabulary, options.piece_bytes, options.any_bytes, pieces);
        break;
      case SourceKind::kJsonLines:
        cut_lines(path, f, options.piece_bytes, pieces);
        break;
      case SourceKind::kParquet:
        cut_parquet(path, f, options.field, pieces);
        break;
      case SourceKind::kTokens:
        cut_tokens(path, f, options.vocabulary.size(), options.piece_bytes, pieces);
        break;
      case SourceKind::kIndexedTokens:
        cut_indexed(path, f, options.piece_bytes, pieces);
    }
  }
  return pieces;
}

}  // namespace mn::data
