#include <mn/report/run_files.hpp>

#include <algorithm>
#include <array>
#include <fstream>
#include <numeric>
#include <set>
#include <utility>

#include <mn/core/classic_stream.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/slow_rank.hpp>

namespace mn::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Causes of a wait for minibatches, and remedies.
constexpr std::array<std::pair<const char*, const char*>, 4> kDataCauses = {
    {{"storage_s", "the storage: see to it, or copy the data to the nodes (--stage)"},
     {"transform_s", "decoding and augmentation: give ranks more cores, or resize the images beforehand"},
     {"copy_s", "copies to the device"},
     {"queue_s", "minibatches that had not been begun: raise LoaderOptions::prefetch_bytes or prefetch"}}};

double sum_of(const json& line, const char* part) {
  const auto values = line.value(part, std::vector<double>{});
  return std::accumulate(values.begin(), values.end(), 0.0);
}

std::vector<json> read_log(const fs::path& path) {
  if (!fs::is_regular_file(path)) {
    throw DataError("there is no " + path.string() +
                    ": give the folder that a job wrote with --out, after its first report");
  }
  json log = parse_json(read_file(path), path.string());
  return read_json(path.string(), [&] {
    std::vector<json> entries = std::move(log.get_ref<json::array_t&>());
    for (const json& entry : entries) static_cast<void>(whole_number<std::int64_t>(entry.at("iteration")));
    return entries;
  });
}

void read_options(Run& run, const fs::path& path) {
  constexpr std::string_view kDefault = "# default: ";
  std::ifstream file(path);
  std::optional<std::string> usual;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kDefault)) usual = line.substr(kDefault.size());
    const auto equals = line.find(" = ");
    if (equals == std::string::npos || line[0] == '#') continue;
    const std::string name = line.substr(0, equals);
    run.options[name] = line.substr(equals + 3);
    if (usual) run.changed[name] = *std::exchange(usual, std::nullopt);
  }
}

std::vector<fs::path> find_images(const fs::path& folder) {
  std::vector<fs::path> images;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const std::string kind = entry.path().extension().string();
    if (kind == ".png" || kind == ".jpg" || kind == ".jpeg") images.push_back(entry.path());
  }
  std::ranges::sort(images);
  return images;
}

/// Adds a report line of run.jsonl: the times of some steps.
void add_times(Run& run, const json& event) {
  for (const char* part : {"data_s", "compute_s", "communication_s"}) {
    static_cast<void>(event.at(part).get<std::vector<double>>().at(0));
  }
  for (const auto& [part, title] : kDataCauses) {
    static_cast<void>(event.value(part, std::vector<double>{}));
  }
  run.times.push_back(event);
}

void add_event(Run& run, const json& event) {
  const auto kind = event.at("event").get<std::string>();
  const auto iteration = whole_number<std::int64_t>(event.at("iteration"));
  if (kind == "start") {
    if (iteration > 0) ++run.resumes;
    // The earlier run went past the checkpoint: the resumed run computed these iterations again.
    std::erase_if(run.times,
                  [&](const json& line) { return whole_number<std::int64_t>(line.at("iteration")) > iteration; });
    run.epochs.erase(run.epochs.upper_bound(iteration), run.epochs.end());
    run.started = event.at("time").get<double>();
    run.command = event.at("command").get<std::vector<std::string>>();
    run.hosts = event.at("hosts").get<std::vector<std::string>>();
    run.device = event.at("device").get<std::string>();
    run.ended = false;
    run.why.clear();
  } else if (kind == "report") {
    if (event.contains("data_s")) add_times(run, event);
    if (event.contains("epoch")) run.epochs[iteration] = event.at("epoch").get<double>();
  } else if (kind == "end") {
    run.ended = true;
    run.why = event.value("why", "");
  }
  for (auto& text : event.value("warnings", std::vector<std::string>())) {
    if (std::ranges::find(run.warnings, text) == run.warnings.end()) run.warnings.push_back(std::move(text));
  }
}

/// A killed job, or a full disk, may leave half a line at the end.
void read_events(Run& run, const fs::path& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('{') && !json::accept(line)) continue;
    const json event = parse_json(line, path.string());
    read_json(path.string(), [&] { return add_event(run, event), true; });
  }
}

void find_slow_ranks(const Run& run, std::vector<std::string>& findings) {
  if (run.times.empty()) return;
  const auto compute = run.times.back().at("compute_s").get<std::vector<double>>();
  if (compute.empty()) return;
  const double median = lower_median(compute);
  for (std::size_t rank = 0; rank < compute.size(); ++rank) {
    if (!is_slow_rank(compute[rank], median)) continue;
    OutText text;
    text.precision(3);
    text << "rank " << rank << (rank < run.hosts.size() ? " on host " + run.hosts[rank] : "") << " computed "
         << compute[rank] / median << " times as long as the median rank in the last report: all others wait for it";
    findings.push_back(text.str());
  }
}

/// If waiting for minibatches takes a tenth of a step or more, names the main cause.
void find_data_waits(const Run& run, std::vector<std::string>& findings) {
  if (run.times.empty()) return;
  const json& last = run.times.back();
  const double waiting = sum_of(last, "data_s");
  const double all = waiting + sum_of(last, "compute_s") + sum_of(last, "communication_s");
  if (all <= 0 || waiting < 0.1 * all) return;
  const auto* cause =
      std::ranges::max_element(kDataCauses, {}, [&](const auto& each) { return sum_of(last, each.first); });
  const double part = sum_of(last, cause->first);
  if (part < waiting / 4) return;  // the iterator recorded no causes
  OutText text;
  text.precision(2);
  text << "in the last report ranks waited " << 100 * waiting / all << " % of a step for minibatches, "
       << 100 * part / waiting << " % of that for " << cause->second;
  findings.push_back(text.str());
}

}  // namespace

bool has_time(const Run& run, const std::string& part) {
  return std::ranges::any_of(run.times, [&](const json& line) { return sum_of(line, part.c_str()) > 0; });
}

Run read_run(const fs::path& out) {
  Run run;
  run.name = (out.has_filename() ? out : out.parent_path()).string();
  run.log = read_log(out / "log");
  read_options(run, out / "config.ini");
  run.images = find_images(out / "images");
  read_events(run, out / "run.jsonl");
  return run;
}

std::optional<double> epoch_of(const Run& run, const json& entry) {
  const auto found = run.epochs.find(entry.at("iteration").get<std::int64_t>());
  return found == run.epochs.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> metrics_of(const Run& run) {
  std::set<std::string> names;
  for (const json& entry : run.log) {
    for (const auto& [name, value] : entry.items()) {
      if (value.is_number() || value.is_null()) names.insert(name);  // null: NaN or infinite, which JSON can't hold
    }
  }
  for (const char* other : {"epoch", "iteration", "elapsed_time"}) names.erase(other);
  return {names.begin(), names.end()};
}

std::vector<std::string> findings_of(const Run& run) {
  std::vector<std::string> findings;
  if (run.command.empty()) findings.emplace_back("there is no run.jsonl: hosts and times by rank are not known");
  if (!run.command.empty() && !run.ended) findings.emplace_back("the run has not ended, or was ended from outside");
  if (run.resumes > 0) findings.push_back("the run was resumed " + std::to_string(run.resumes) + " time(s)");
  for (const json& entry : run.log) {
    const auto bad = std::ranges::find_if(entry.items(), [](const auto& item) { return item.value().is_null(); });
    if (bad == entry.items().end()) continue;
    findings.push_back(bad.key() + " was NaN or infinite at iteration " + entry.at("iteration").dump());
    break;
  }
  find_slow_ranks(run, findings);
  find_data_waits(run, findings);
  for (const std::string& text : run.warnings) findings.push_back("warning of " + text);
  return findings;
}

}  // namespace mn::report
