#include <mn/report/run_files.hpp>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <utility>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>

namespace mn::report {

/// Lets nlohmann::json read an object of class Facts. If the JSON text lacks a fact, the fact keeps its default.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Facts, parameters, samples, global_batch, epochs, iterations, unit,
                                                units_per_sample, device, mn, torch, used)

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::vector<json> read_log(const fs::path& path) {
  if (!fs::is_regular_file(path)) {
    if (fs::is_regular_file(path.parent_path() / "run.jsonl")) return {};  // a run without a report
    throw DataError("there is no " + path.string() + " and no run.jsonl: give the folder that a job writes with --out");
  }
  json log = parse_json(read_file(path), path.string());
  const auto is_entry = [](const json& entry) {
    return entry.is_object() && entry.contains("iteration") && entry["iteration"].is_number_integer();
  };
  if (!log.is_array() || !std::ranges::all_of(log, is_entry)) {
    throw DataError(path.string() + " is no list of reports, each with its iteration, as a job writes it");
  }
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
  bool is_idle = false;
  run.has_options = file.good();
  for (std::string line; std::getline(file, line);) {
    if (line == kSettingsHeader) run.has_options = false;
    if (line.starts_with(kDefault)) usual = line.substr(kDefault.size());
    if (line.starts_with("# no effect")) is_idle = true;
    const auto equals = line.find(" = ");
    if (equals == std::string::npos || line[0] == '#') continue;
    const std::string name = line.substr(0, equals);
    const auto [option, is_first] = run.options.try_emplace(name);
    option->second += (is_first ? "" : "; ") + line.substr(equals + 3);  // an option such as --group may repeat
    if (usual) run.changed[name] = *std::exchange(usual, std::nullopt);
    if (std::exchange(is_idle, false)) run.idle.insert(name);
  }
}

/// Adds the times of a report line to the run. The times are means over the `steps` steps since the previous line.
void add_times(Run& run, json event, std::int64_t steps) {
  for (const char* part : {"data_s", "compute_s", "communication_s"}) {
    static_cast<void>(event.at(part).get<std::vector<double>>().at(0));
  }
  for (const char* part : {"queue_s", "storage_s", "transform_s", "copy_s"}) {
    static_cast<void>(event.value(part, std::vector<double>{}));
  }
  event["steps"] = steps;
  run.times.push_back(std::move(event));
}

/// A run that resumes from the checkpoint of `iteration` makes later iterations again, so their records are dropped.
void drop_after(Run& run, std::int64_t iteration) {
  std::erase_if(run.times,
                [&](const json& line) { return whole_number<std::int64_t>(line.at("iteration")) > iteration; });
  std::erase_if(run.pauses, [&](const Pauses& each) { return each.iteration > iteration; });
  run.epochs.erase(run.epochs.upper_bound(iteration), run.epochs.end());
}

void start(Run& run, const json& event, std::int64_t iteration) {
  if (iteration > 0) ++run.resumes;
  drop_after(run, iteration);
  run.started = event.at("time").get<double>();
  run.command = event.at("command").get<std::vector<std::string>>();
  run.hosts = event.at("hosts").get<std::vector<std::string>>();
  run.device = event.at("device").get<std::string>();
  run.facts = event.value("run", Facts());
  run.ended = false;
  run.why.clear();
  run.error.clear();
  run.total_s.reset();
}

/// Adds one line of run.jsonl to the run. `reached` is the iteration of the previous line.
void add_event(Run& run, const json& event, std::int64_t& reached) {
  const auto kind = event.at("event").get<std::string>();
  const auto iteration = whole_number<std::int64_t>(event.at("iteration"));
  if (kind == "start") {
    start(run, event, iteration);
  } else if (kind == "report") {
    if (event.contains("data_s")) add_times(run, event, std::max<std::int64_t>(iteration - reached, 1));
    if (event.contains("epoch")) run.epochs[iteration] = event.at("epoch").get<double>();
  } else if (kind == "end") {
    run.ended = true;
    run.why = event.value("why", "");
    run.error = event.value("error", "");
    if (event.contains("elapsed_s")) run.total_s = event.at("elapsed_s").get<double>();
  }
  reached = iteration;
  if (event.contains("time")) {
    const auto time = event.at("time").get<double>();
    if (kind != "start" && run.last_time) run.longest_pause_s = std::max(run.longest_pause_s, time - *run.last_time);
    run.last_time = time;
  }
  run.pauses.push_back({iteration, event.value("validation_s", 0.0), event.value("checkpoint_s", 0.0)});
  for (auto& text : event.value("warnings", std::vector<std::string>())) {
    if (std::ranges::find(run.warnings, text) == run.warnings.end()) run.warnings.push_back(std::move(text));
  }
}

/// A line may be incomplete if the process was killed or the disk was full.
void read_events(Run& run, const fs::path& path) {
  std::ifstream file(path);
  std::int64_t reached = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('{') && !json::accept(line)) continue;
    const json event = parse_json(line, path.string());
    read_json(path.string(), [&] { return add_event(run, event, reached), true; });
  }
}

}  // namespace

double sum_of(const json& line, const std::string& part) {
  const auto values = line.value(part, std::vector<double>{});
  return std::accumulate(values.begin(), values.end(), 0.0);
}

Run read_run(const fs::path& out) {
  Run run;
  run.folder = out;
  run.name = (out.has_filename() ? out : out.parent_path()).string();
  run.log = read_log(out / "log");
  read_options(run, out / "config.ini");
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
      if (value.is_number() || value.is_null()) names.insert(name);  // JSON has null for NaN and infinity
    }
  }
  for (const char* other : {"epoch", "iteration", "elapsed_time"}) names.erase(other);
  return {names.begin(), names.end()};
}

double elapsed_s(const Run& run) {
  if (run.total_s) return *run.total_s;
  if (run.log.empty() || !run.log.back().contains("elapsed_time")) return 0;
  const json& last = run.log.back().at("elapsed_time");
  return last.is_number() ? last.get<double>() : 0;
}

std::string job_of(const Run& run) {
  return run.command.empty() ? "" : fs::path(run.command.front()).filename().string();
}

std::string advised(const Run& run, const std::string& option, const std::string& call) {
  return run.has_options && run.options.contains(option) ? "--" + option : call;
}

std::string used_value(const Run& run, const std::string& option) {
  if (const auto used = run.facts.used.find(option); used != run.facts.used.end()) return used->second;
  const auto found = run.options.find(option);
  return found == run.options.end() ? std::string() : found->second;
}

}  // namespace mn::report
