// What two nodes of two ranks each put, as {"nodes": […], "ranks": […]} of any content: rank 0 binds and decides, or an
// Error says what is wrong with it. JSON, of which more changes make sense than of CBOR (fuzz_json has that).
#include <cstdint>
#include <string>
#include <vector>

#include <mn/core/json.hpp>

#include "launcher/bind/affinity.hpp"
#include "launcher/facts/json_fields.hpp"
#include "launcher/rounds/verdict.hpp"

namespace {

using namespace mn::launcher;

void decide_on_facts(const nlohmann::json& facts) {
  JobFacts job;
  job.launcher = Launcher::kPmix;
  job.layout = {{0, 0, 1, 1}, {"vn1", "vn2"}};
  for (int node = 0; node < 2; ++node) {
    const nlohmann::json& ranks = facts.at("ranks");
    json_fields::read(facts.at("nodes").at(node), "", job.nodes.emplace_back());
    std::vector<RankResources> resources;
    for (int rank = 2 * node; rank < 2 * node + 2; ++rank) {
      json_fields::read(ranks.at(rank), "", job.ranks.emplace_back());
      resources.push_back(job.ranks.back().resources);
    }
    job.bindings.push_back(bind_ranks(job.nodes.back().machine, resources, {}));
  }
  Options options;
  options.show = options.json = true;
  Placement here;
  here.size = 4;
  (void)decide(job, options, here, 127);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const nlohmann::json facts = mn::parse_json({reinterpret_cast<const char*>(data), size}, "input");
    mn::read_json("input", [&] { decide_on_facts(facts); });
  } catch (const mn::Error&) {
  }
  return 0;
}
