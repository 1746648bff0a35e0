#include "exchange.hpp"

#include <algorithm>
#include <chrono>

#include <mn/core/host_list.hpp>

#include "check_failed.hpp"

namespace mn::launcher {
namespace {

std::string rank_list(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size() && i < 8; ++i) text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text + (ranks.size() > 8 ? ", ..." : "");
}

std::string absence(const Placement& here, const std::vector<int>& missing, std::chrono::milliseconds patience) {
  if (missing.empty()) return "some ranks never arrived";
  std::vector<std::string> hosts;
  for (const int rank : missing) hosts.push_back(here.layout->host_of(rank));
  return "error [tasks] " + compress_host_list(hosts) + ": " + (missing.size() == 1 ? "rank " : "ranks ") +
         rank_list(missing) + " of " + std::to_string(here.size) + " did not arrive in " +
         std::to_string(std::chrono::duration_cast<std::chrono::seconds>(patience).count()) +
         " s; look for a hung node or file system there, and start mnlaunch on every rank";
}

}  // namespace

void Exchange::put(const std::string& key, const nlohmann::json& facts) {
  std::string bytes;
  nlohmann::json::to_cbor(facts, bytes);
  session_.put(key, bytes);
}

void Exchange::fence() {
  try {
    session_.fence();
  } catch (const PmixTimeout& timeout) {
    // The first rank that did arrive speaks for all.
    const auto& missing = timeout.missing();
    int speaker = 0;
    while (std::ranges::find(missing, speaker) != missing.end()) ++speaker;
    throw CheckFailed(here_.rank == speaker ? absence(here_, missing, session_.patience()) : "");
  }
}

nlohmann::json Exchange::get_document(int rank, const std::string& key) const {
  const auto bytes = session_.get(rank, key);
  if (!bytes) {
    throw CheckFailed("error [tasks] " + here_.layout->host_of(rank) + ": rank " + std::to_string(rank) +
                      " put no facts; start mnlaunch on every rank, and equally often");
  }
  return parse_cbor(*bytes, source_of(rank, key));
}

std::string Exchange::source_of(int rank, const std::string& key) const {
  return "\"" + key + "\" of rank " + std::to_string(rank) + " on " + here_.layout->host_of(rank);
}

}  // namespace mn::launcher
