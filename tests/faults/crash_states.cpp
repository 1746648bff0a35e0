// crash_states FOLDER OUT LIMIT RECORD…: whether a job finds its newest checkpoint after a power cut at any moment.
//
// FOLDER was empty when the recording began, OUT is the output folder, below it. After each change that the records
// have, it makes the trees of files that a power cut may leave there:
// - all that is not durable is lost, or none of it, or any one to three changes, or all but any one or two;
// - one write is there in part.
// At most LIMIT of them for each moment, then drawn at random. In each, the newest checkpoint that is not damaged must
// be one of the job's, byte for byte, and not older than what rank 0 has called saved; or that one is another run's and
// has been set aside whole.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/checkpoint/format/saved_checkpoint.hpp>
#include <mn/core/checksum.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>

#include "tests/faults/power_cut.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn::test {
namespace {

namespace fs = std::filesystem;

/// All sets of one to three of `pending`, and of all but one or two; or `limit` of them.
std::vector<std::vector<std::size_t>> choose_lost(const std::vector<std::size_t>& pending, std::size_t limit,
                                                  std::mt19937& random) {
  std::vector<std::vector<std::size_t>> lost = {{}, pending};
  const std::size_t n = pending.size();
  for (std::size_t i = 0; i < n; ++i) {
    lost.push_back({pending[i]});
    for (std::size_t j = i + 1; j < n; ++j) {
      lost.push_back({pending[i], pending[j]});
      for (std::size_t k = j + 1; k < n; ++k) lost.push_back({pending[i], pending[j], pending[k]});
    }
  }
  const std::size_t sets = lost.size();
  for (std::size_t s = 2; s < sets; ++s) {
    if (lost[s].size() > 2) continue;
    std::vector<std::size_t> rest;
    std::ranges::set_difference(pending, lost[s], std::back_inserter(rest));
    lost.push_back(std::move(rest));
  }
  if (lost.size() > limit) {
    std::shuffle(lost.begin() + 2, lost.end(), random);
    lost.resize(limit);
  }
  return lost;
}

class Checker {
 public:
  Checker(const fs::path& folder, const fs::path& out, std::size_t limit, const PowerCuts& cuts)
      : out_(out.lexically_relative(folder).string()), limit_(limit), cuts_(cuts) {}

  int run() {
    for (std::size_t moment = 1; moment <= cuts_.changes().size(); ++moment) cut_after(moment);
    std::printf("%zu changes, %zu states, %zu of them different, %zu failures\n", cuts_.changes().size(), states_,
                seen_.size(), failures_);
    return failures_ > 0 || newest_ == 0 ? 1 : 0;
  }

 private:
  void cut_after(std::size_t moment) {
    saved_ = cuts_.changes()[moment - 1].saved > 0 ? cuts_.changes()[moment - 1].saved : saved_;
    newest_ = std::max(newest_, saved_);
    std::vector<Part> parts(moment, Part::kAll);
    note_manifests(cuts_.tree(parts));
    std::vector<std::size_t> pending;
    for (std::size_t i = 0; i < moment; ++i) {
      if (cuts_.changes()[i].durable > moment) pending.push_back(i);
    }
    for (const auto& lost : choose_lost(pending, limit_, random_)) {
      for (const std::size_t i : lost) parts[i] = Part::kNone;
      check(parts);
      for (const std::size_t i : lost) parts[i] = Part::kAll;
    }
    for (const std::size_t i : pending) {
      if (cuts_.changes()[i].data.empty()) continue;
      for (const Part part : {Part::kZeros, Part::kFirstPage, Part::kOtherPages}) {
        parts[i] = part;
        check(parts);
      }
      parts[i] = Part::kAll;
    }
  }

  /// What the job has written by these names is what a checkpoint may hold.
  void note_manifests(const Tree& tree) {
    for (const auto& [path, content] : tree) {
      if (path.ends_with(std::string("/") + kCheckpointManifestName)) manifests_.insert(content);
    }
  }

  void check(const std::vector<Part>& parts) {
    ++states_;
    const Tree tree = cuts_.tree(parts);
    std::uint64_t hash = static_cast<std::uint64_t>(saved_);
    for (const auto& [path, content] : tree) hash = hash64(content, hash64(path, hash));
    if (!seen_.insert(hash).second) return;
    const TemporaryFolder folder("/dev/shm");
    for (const auto& [path, content] : tree) {
      if (path.ends_with('/')) {
        fs::create_directories(folder.path() / path);
      } else if (content.starts_with("->")) {
        fs::create_symlink(content.substr(2), folder.path() / path);
      } else {
        write_text(folder.path() / path, content);
      }
    }
    if (const std::string wrong = what_is_wrong(folder.path() / out_); !wrong.empty()) report(parts, wrong);
  }

  std::string what_is_wrong(const fs::path& out) const {
    std::string damaged;
    for (const fs::path& path : find_checkpoints(out)) {
      try {
        SavedCheckpoint checkpoint(path);
        checkpoint.check();
        if (!manifests_.contains(SavedCheckpoint::read_text(path))) return path.filename().string() + " is nobody's";
        const auto iteration = checkpoint.manifest().about.at("iteration").get<std::int64_t>();
        if (iteration >= saved_ || is_set_aside(out)) return "";
        return "the newest is of iteration " + std::to_string(iteration) + damaged;
      } catch (const DataError& error) {
        damaged += std::string("; ") + error.what();
      }
    }
    return saved_ > 0 && !is_set_aside(out) ? "there is no checkpoint" + damaged : "";
  }

  /// Whether a run that does not continue the checkpoint of iteration saved_ has renamed it, and it is whole.
  bool is_set_aside(const fs::path& out) const {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(checkpoint_path(out, saved_).parent_path(), none)) {
      if (!entry.path().filename().string().starts_with("old_step-")) continue;
      try {
        SavedCheckpoint checkpoint(entry.path());
        checkpoint.check();
        if (checkpoint.manifest().about.at("iteration") == saved_) return true;
      } catch (const DataError&) {  // another one may be whole
      }
    }
    return false;
  }

  void report(const std::vector<Part>& parts, const std::string& wrong) {
    if (++failures_ > 5) return;
    std::cout << "FAILED: iteration " << saved_ << " was saved, and " << wrong << "\n  after "
              << cuts_.changes()[parts.size() - 1].text << "\n  without";
    std::size_t kept = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (cuts_.changes()[i].durable <= parts.size()) continue;
      if (parts[i] == Part::kAll) {
        ++kept;
      } else {
        std::cout << "\n    " << cuts_.changes()[i].text << (parts[i] == Part::kNone ? "" : " (in part)");
      }
    }
    std::cout << "\n  with " << kept << " others that are not durable" << std::endl;
  }

  std::string out_;
  std::size_t limit_;
  const PowerCuts& cuts_;
  std::mt19937 random_{1};
  std::set<std::string> manifests_;
  std::set<std::uint64_t> seen_;
  std::int64_t saved_ = 0, newest_ = 0;
  std::size_t states_ = 0, failures_ = 0;
};

}  // namespace
}  // namespace mn::test

int main(int argc, char** argv) {
  if (argc < 5) {
    std::cerr << "usage: crash_states FOLDER OUT LIMIT RECORD...\n";
    return 2;
  }
  const mn::test::PowerCuts cuts(argv[1], {argv + 4, argv + argc});
  return mn::test::Checker(argv[1], argv[2], std::strtoull(argv[3], nullptr, 10), cuts).run();
}
