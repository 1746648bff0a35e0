#include <mn/checkpoint/format/weights_index.hpp>

#include <string_view>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>

namespace mn {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

[[noreturn]] void throw_no_index(const fs::path& index, const std::string& why) {
  throw DataError(index.string() + " is not an index of weights: " + why +
                  "; download the model again, or give one of its .safetensors files");
}

nlohmann::json read_document(const fs::path& index) {
  const std::string text = read_file(index);
  try {
    return parse_json(text, "it");
  } catch (const DataError& error) {
    throw_no_index(index, error.what());
  }
}

/// True if the name is that of a file in the same folder.
bool is_beside(const std::string& file) {
  return !file.empty() && file != "." && file != ".." && file.find_first_of("/\0"sv) == std::string::npos;
}

}  // namespace

std::map<std::string, std::set<std::string>> read_weights_index(const fs::path& index) {
  std::map<std::string, std::set<std::string>> files;
  const nlohmann::json document = read_document(index);
  const bool has_map = document.is_object() && document.contains("weight_map") && document["weight_map"].is_object();
  if (!has_map) throw_no_index(index, "it has no object \"weight_map\", which names the file of each tensor");
  for (const auto& [name, file] : document["weight_map"].items()) {
    if (!file.is_string()) throw_no_index(index, "its \"weight_map\" has no file for " + json_quoted(name));
    files[file.get<std::string>()].insert(name);
  }
  if (files.empty()) throw_no_index(index, "its \"weight_map\" is empty");
  for (const auto& [file, names] : files) {
    if (!is_beside(file)) throw DataError(index.string() + " names a file elsewhere: " + json_quoted(file));
  }
  return files;
}

}  // namespace mn
