#include "tests/faults/power_cut.hpp"

#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>

namespace mn::test {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPage = 4096;
std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

/// The number after "saved " in a status file.
std::int64_t saved_in(const std::string& data) {
  const auto at = data.find("\nsaved ");
  return at == std::string::npos ? 0 : std::atoll(data.c_str() + at + 7);
}

void write_part(std::string& content, const Change& change, Part part) {
  if (change.truncates) return content.resize(change.offset);
  const std::size_t end = change.offset + change.data.size();
  if (content.size() < end) content.resize(end);
  const std::size_t first = std::min(kPage, change.data.size());
  const std::size_t from = part == Part::kOtherPages ? first : 0;
  const std::size_t to = part == Part::kFirstPage ? first : part == Part::kZeros ? 0 : change.data.size();
  if (from < to) content.replace(change.offset + from, to - from, change.data, from, to - from);
}

}  // namespace

struct PowerCuts::Call {
  std::int64_t at_ns;
  std::size_t process;
  std::vector<std::string> words;
};

PowerCuts::PowerCuts(const fs::path& folder, const std::vector<fs::path>& records) : folder_(folder) {
  std::vector<Call> calls;
  for (std::size_t process = 0; process < records.size(); ++process) {
    std::ifstream file(records[process]);
    for (std::string line; std::getline(file, line);) {
      std::istringstream fields(line);
      Call call{0, process, {}};
      std::string at;
      std::getline(fields, at, '\t');
      call.at_ns = std::stoll(at);
      for (std::string word; std::getline(fields, word, '\t');) call.words.push_back(word);
      calls.push_back(std::move(call));
    }
  }
  std::ranges::stable_sort(calls, {}, &Call::at_ns);
  for (const Call& call : calls) replay(call);
}

int PowerCuts::find(const fs::path& path) const {
  int file = 0;
  for (const fs::path& name : path.lexically_relative(folder_)) {
    if (name == "." || name.empty()) continue;
    const auto folder = entries_.find(file);
    if (folder == entries_.end() || !folder->second.contains(name)) {
      throw std::runtime_error("the record has no " + path.string());
    }
    file = folder->second.at(name);
  }
  return file;
}

int PowerCuts::make(bool is_folder, const std::string& target) {
  files_.push_back({is_folder, target});
  return static_cast<int>(files_.size()) - 1;
}

void PowerCuts::set(const std::string& text, const std::vector<std::pair<fs::path, int>>& entries) {
  Change change;
  change.text = text;
  for (const auto& [path, file] : entries) {
    const int folder = find(path.parent_path());
    const std::string name = path.filename().string();
    change.entries.push_back({folder, name, file});
    if (file < 0) {
      entries_[folder].erase(name);
    } else {
      entries_[folder][name] = file;
    }
  }
  changes_.push_back(std::move(change));
}

void PowerCuts::change_content(const std::string& text, int file, std::uint64_t offset, std::string data,
                               bool truncates) {
  const std::int64_t saved = saved_in(data);
  changes_.push_back({text, {}, file, offset, std::move(data), truncates, Change::kNever, saved});
}

void PowerCuts::sync(int file) {
  for (Change& change : changes_) {
    const bool is_its =
        change.file == file || std::ranges::find(change.entries, file, &Change::Entry::folder) != change.entries.end();
    if (is_its && change.durable == Change::kNever) change.durable = changes_.size();
  }
}

void PowerCuts::replay(const Call& call) {
  const std::string& what = call.words.at(0);
  const std::string text = "process " + std::to_string(call.process) + ": " + what + " " + call.words.at(1) +
                           (what == "write" || call.words.size() < 3 ? "" : " " + call.words.at(2));
  const auto word = [&](std::size_t i) -> const std::string& { return call.words.at(i); };
  const auto opened = [&]() -> int& { return open_[{call.process, word(1)}]; };
  if (what == "create") {
    opened() = make(false);
    set(text, {{word(2), opened()}});
  } else if (what == "open") {
    opened() = find(word(2));
  } else if (what == "write") {
    change_content(text, opened(), std::stoull(word(2)), call.words.size() > 3 ? from_hex(word(3)) : "", false);
  } else if (what == "truncate") {
    change_content(text, opened(), std::stoull(word(2)), "", true);
  } else if (what == "sync") {
    sync(opened());
  } else if (what == "mkdir") {
    set(text, {{word(1), make(true)}});
  } else if (what == "symlink") {
    set(text, {{word(2), make(false, word(1))}});
  } else if (what == "remove") {
    set(text, {{word(1), -1}});
  } else if (what == "rename") {
    const int file = find(word(1));
    set(text, {{word(1), -1}, {word(2), file}});
  } else if (what == "exchange") {
    const int one = find(word(1)), other = find(word(2));
    set(text, {{word(1), other}, {word(2), one}});
  }
}

Tree PowerCuts::tree(const std::vector<Part>& parts) const {
  std::map<int, std::map<std::string, int>> entries;
  std::map<int, std::string> contents;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] == Part::kNone) continue;
    const Change& change = changes_[i];
    for (const auto& [folder, name, file] : change.entries) {
      if (file < 0) {
        entries[folder].erase(name);
      } else {
        entries[folder][name] = file;
      }
    }
    if (change.file >= 0) write_part(contents[change.file], change, parts[i]);
  }
  Tree tree;
  const std::function<void(int, const std::string&)> walk = [&](int folder, const std::string& prefix) {
    for (const auto& [name, file] : entries[folder]) {
      const File& own = files_[static_cast<std::size_t>(file)];
      tree[prefix + name + (own.is_folder ? "/" : "")] = own.target.empty() ? contents[file] : "->" + own.target;
      if (own.is_folder) walk(file, prefix + name + "/");
    }
  };
  walk(0, "");
  return tree;
}

}  // namespace mn::test
