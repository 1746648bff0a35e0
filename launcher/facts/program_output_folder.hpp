/// The folder that the program writes results to, and whether all nodes see the same one.
#pragma once

#include <filesystem>
#include <string>

#include "facts/surroundings.hpp"

namespace mn::launcher {

/// The value of --out among the program's arguments, else the current folder; the nearest folder above that exists.
[[nodiscard]] std::filesystem::path output_folder(const Surroundings& here);

/// An empty file that lies in a folder for as long as this lives, so that other nodes can tell whether theirs is the
/// same folder. One at a time.
///
/// A signal that ends the process removes it too. What a start that was killed left behind is removed by the next one
/// in that folder, if it is over an hour old.
class Marker {
 public:
  Marker(const std::filesystem::path& folder, const std::string& name);
  ~Marker();
  Marker(const Marker&) = delete;
  Marker& operator=(const Marker&) = delete;
  /// Its name; empty if it could not be made.
  [[nodiscard]] std::string name() const { return path_.filename().string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace mn::launcher
