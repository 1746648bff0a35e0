// What two nodes of two ranks each told, as {"nodes": […], "ranks": […]} of any content: rank 0 binds and judges, or
// an Error says what is wrong with it. JSON, of which more changes make sense than of CBOR (fuzz_json has that).
#include <cstdint>
#include <string>

#include <mn/core/json.hpp>

#include "launcher/verdict.hpp"
#include "launcher/node_share.hpp"

namespace {

using namespace mn::launcher;

void judge_facts(const Facts& told) {
  JobFacts job{.launcher = Launcher::kPmix, .layout = {{0, 0, 1, 1}, {"vn1", "vn2"}}};
  for (int node = 0; node < 2; ++node) {
    const Facts& ranks = told.at("ranks");
    NodeShare share{told.at("nodes").at(node), {ranks.at(2 * node), ranks.at(2 * node + 1)}, {}};
    bind(share, {});
    job.nodes.push_back(share.node);
    job.ranks.insert(job.ranks.end(), share.ranks.begin(), share.ranks.end());
    job.bindings.push_back(share.bindings);
  }
  Options options;
  options.show = options.json = true;
  Placement here;
  here.size = 4;
  (void)judge(job, options, here, 127);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const Facts told = mn::parse_json({reinterpret_cast<const char*>(data), size}, "input");
    mn::read_json("input", [&] { judge_facts(told); });
  } catch (const mn::Error&) {
  }
  return 0;
}
