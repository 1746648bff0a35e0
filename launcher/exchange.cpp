#include "exchange.hpp"

#include <algorithm>

#include <mn/core/checksum.hpp>
#include <mn/core/host_list.hpp>
#include <mn/core/json.hpp>

namespace mn::launcher {
namespace {

std::string packed(const Facts& facts) {
  const auto bytes = Facts::to_cbor(facts);
  return {bytes.begin(), bytes.end()};
}

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

void Exchange::tell(const std::string& topic, const Facts& facts) { session_.put(topic, packed(facts)); }

void Exchange::meet() {
  try {
    session_.fence();
  } catch (const PmixTimeout& timeout) {
    // The first rank that did arrive speaks for all.
    const auto& missing = timeout.missing();
    int speaker = 0;
    while (std::ranges::find(missing, speaker) != missing.end()) ++speaker;
    throw CheckError(here_.rank == speaker ? absence(here_, missing, session_.patience()) : "");
  }
}

Facts Exchange::hear(int rank, const std::string& topic) const {
  const auto bytes = session_.get(rank, topic);
  if (!bytes) {
    throw CheckError("error [tasks] " + here_.layout->host_of(rank) + ": rank " + std::to_string(rank) +
                     " told nothing; start mnlaunch on every rank, and equally often");
  }
  return parse_cbor(*bytes, "\"" + topic + "\" of rank " + std::to_string(rank) + " on " + here_.layout->host_of(rank));
}

void limit_size(Facts& facts) {
  constexpr std::size_t kMostBytes = 16 << 10;
  if (!facts.contains("environment") || Facts::to_cbor(facts).size() <= kMostBytes) return;
  for (auto& [name, value] : facts["environment"].items()) value = std::to_string(hash64(value.get<std::string>()));
}

}  // namespace mn::launcher
