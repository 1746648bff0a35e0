#include "facts/surroundings.hpp"

#include <array>
#include <cstring>
#include <system_error>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <mn/core/fd.hpp>

namespace mn::launcher {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMarkerPrefix = ".mnlaunch-";
constexpr std::array kEndingSignals = {SIGHUP, SIGINT, SIGTERM};

// The path of the marker file. Of fixed size: a signal handler must not allocate memory.
std::array<char, 4096> path_to_remove;
std::array<struct sigaction, kEndingSignals.size()> former_actions;

/// A second signal ends the process, because SA_RESETHAND has restored the default action.
extern "C" void remove_marker_and_end(int signal) {
  unlink(path_to_remove.data());
  raise(signal);
}

void watch_signals(const fs::path& path) {
  if (path.native().size() >= path_to_remove.size()) return;
  std::strcpy(path_to_remove.data(), path.c_str());
  struct sigaction action {};
  action.sa_handler = remove_marker_and_end;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (std::size_t i = 0; i < kEndingSignals.size(); ++i) {
    sigaction(kEndingSignals[i], nullptr, &former_actions[i]);
    const bool is_ignored = former_actions[i].sa_handler == SIG_IGN;  // as under nohup
    if (!is_ignored) sigaction(kEndingSignals[i], &action, nullptr);
  }
}

void unwatch_signals() {
  if (path_to_remove[0] == '\0') return;
  for (std::size_t i = 0; i < kEndingSignals.size(); ++i) sigaction(kEndingSignals[i], &former_actions[i], nullptr);
  path_to_remove[0] = '\0';
}

/// Removes marker files over an hour older than `newest`. Both times are by the file system's clock. Looks at most at
/// 10,000 entries: the folder may hold a data set.
void remove_old_markers(const fs::path& newest) {
  constexpr auto kOld = std::chrono::hours(1);
  constexpr int kMaxEntries = 10'000;
  std::error_code error;
  const auto now = fs::last_write_time(newest, error);
  if (error) return;
  fs::directory_iterator entry(newest.parent_path(), error);
  for (int i = 0; i < kMaxEntries && !error && entry != fs::directory_iterator(); ++i, entry.increment(error)) {
    if (!entry->path().filename().native().starts_with(kMarkerPrefix)) continue;
    std::error_code of_entry;
    const auto written = entry->last_write_time(of_entry);
    if (!of_entry && now - written > kOld) fs::remove(entry->path(), of_entry);
  }
}

}  // namespace

fs::path output_folder(const Surroundings& here) {
  fs::path folder = here.folder;
  const auto& arguments = here.arguments;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i] == "--out" && i + 1 < arguments.size()) folder = here.folder / arguments[i + 1];
    if (arguments[i].starts_with("--out=")) folder = here.folder / arguments[i].substr(6);
  }
  std::error_code error;
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  return folder;
}

Marker::Marker(const fs::path& folder, const std::string& name) : path_(folder / (kMarkerPrefix + name)) {
  watch_signals(path_);
  if (Fd(open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600))) {
    remove_old_markers(path_);
  } else {
    unwatch_signals();
    path_.clear();
  }
}

Marker::~Marker() {
  if (path_.empty()) return;
  std::error_code error;
  fs::remove(path_, error);
  unwatch_signals();
}

}  // namespace mn::launcher
