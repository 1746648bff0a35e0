#include <mn/report/headline.hpp>

#include <algorithm>
#include <set>

#include <mn/core/text.hpp>
#include <mn/core/unix_time.hpp>
#include <mn/report/findings.hpp>
#include <mn/report/format.hpp>
#include <mn/report/html_page.hpp>
#include <mn/report/metrics.hpp>

namespace mn::report {
namespace {

std::string started(const Run& run) { return run.started ? utc_text(*run.started, "%Y-%m-%d %H:%M UTC") : ""; }

std::string hosts_of(const Run& run) {
  const std::set<std::string> hosts(run.hosts.begin(), run.hosts.end());
  if (hosts.empty()) return "";
  return run.hosts.front() + (hosts.size() > 1 ? " and " + std::to_string(hosts.size() - 1) + " more" : "");
}

std::int64_t last_iteration(const Run& run) {
  const std::int64_t logged = run.log.empty() ? 0 : run.log.back().at("iteration").get<std::int64_t>();
  return run.pauses.empty() ? logged : std::max(logged, run.pauses.back().iteration);
}

double last_epoch(const Run& run) {
  if (run.log.empty()) return 0;
  if (const auto epoch = epoch_of(run, run.log.back())) return *epoch;
  const auto epoch = run.log.back().find("epoch");
  return epoch != run.log.back().end() && epoch->is_number() ? epoch->get<double>() : 0;
}

/// Returns which fraction of the training is done, from 0 to 1. Returns 0 if the length of the training is not known.
double progress_of(const Run& run) {
  double done = 0;
  if (run.facts.epochs > 0) done = last_epoch(run) / static_cast<double>(run.facts.epochs);
  if (run.facts.iterations > 0) {
    done = std::max(done, static_cast<double>(last_iteration(run)) / static_cast<double>(run.facts.iterations));
  }
  return std::min(done, 1.0);
}

/// Makes a box with one value. If `is_main`, the value shows how good the run is, and the box looks different.
std::string tile(const std::string& name, const std::string& value, const std::string& note, bool is_main = false) {
  return "<div class='tile" + std::string(is_main ? " main" : "") + "'><p>" + escape_html(name) +
         "</p><p class='value'>" + escape_html(value) + "</p><p>" + escape_html(note) + "</p></div>\n";
}

std::string metric_tile(const Run& run, const std::string& metric, bool is_main) {
  const auto values = values_of(run, metric);
  if (!values) return "";
  std::string note;
  if (!values->best_at.empty()) {
    note = values->best == values->last ? "its best value, " + values->best_at
                                        : "best " + short_number(values->best) + ", " + values->best_at;
  }
  return tile(shown_name(run, metric), short_number(values->last), note, is_main);
}

std::string time_tile(const Run& run) {
  const double seconds = elapsed_s(run), epochs = last_epoch(run);
  std::string note = epochs > 0 ? short_number(epochs) + (epochs == 1 ? " epoch, " : " epochs, ") : "";
  note += counted(static_cast<double>(last_iteration(run)), "step");
  return seconds > 0 ? tile("training time", duration_text(seconds), note) : "";
}

std::string speed_tile(const Run& run) {
  const double speed = speed_of(run);
  if (speed <= 0) return "";
  const auto ranks = static_cast<double>(run.hosts.size());
  return tile(run.facts.unit + "/s", count_text(speed), ranks > 1 ? count_text(speed / ranks) + " on each rank" : "");
}

std::string size_tile(const Run& run) {
  if (run.hosts.empty()) return "";
  const std::set<std::string> nodes(run.hosts.begin(), run.hosts.end());
  return tile("ranks on nodes", std::to_string(run.hosts.size()) + " on " + std::to_string(nodes.size()),
              run.facts.device.empty() ? run.device : run.facts.device);
}

std::string item(const Finding& finding) {
  const char* kind = finding.cost > 1 ? "bad" : finding.cost > 0 ? "cost" : "note";
  return "<li class='" + std::string(kind) + "'><b>" + escape_html(finding.title) + "</b>" +
         (finding.advice.empty() ? "" : "<p>" + escape_html(finding.advice) + "</p>") + "</li>\n";
}

}  // namespace

std::string origin_of(const std::vector<Run>& runs) {
  const auto same = [&](const auto& text) {
    const auto is_first = [&](const Run& run) { return text(run) == text(runs.front()); };
    return std::ranges::all_of(runs, is_first) ? text(runs.front()) : "";
  };
  std::vector<std::string> parts = {same(job_of), same(started), same(hosts_of)};
  std::erase(parts, "");
  return join(parts);
}

std::string state_label(const Run& run, double now) {
  const double done = progress_of(run);
  const std::string so_far = done > 0 ? ", " + percent(done) + " done" : "";
  const auto label = [](const char* kind, const std::string& text) {
    return "<span class='state " + std::string(kind) + "'>" + escape_html(text) + "</span>";
  };
  if (run.command.empty()) return "";
  switch (state_of(run, now)) {
    case State::kFinished:
      return label("good", run.why.empty() ? "finished" : "finished: " + run.why);
    case State::kFailed:
      return label("bad", "ended with an error" + so_far);
    case State::kStopped:
      return label("warn", "stopped" + (done > 0 ? " at " + percent(done) : std::string()) + ": " + run.why);
    case State::kLost:
      return label("bad", "no end" + so_far);
    case State::kQuiet:
      return label("warn", quiet_text(run, now) + so_far);
    case State::kRunning:
      break;
  }
  const bool has_rest = done > 0 && done < 1;
  return label("busy", "running" + so_far +
                           (has_rest ? ", about " + duration_text(elapsed_s(run) * (1 / done - 1)) + " left" : ""));
}

std::string run_header(const Run& run, double now) {
  std::vector<std::string> parts = {run.name, started(run), hosts_of(run)};
  if (run.resumes > 0) parts.push_back("resumed " + counted(static_cast<double>(run.resumes), "time"));
  if (!run.command.empty() && !run.ended && run.last_time) {
    parts.push_back("last report " + utc_text(*run.last_time, "%H:%M:%S UTC"));
  }
  std::erase(parts, "");
  const std::string job = job_of(run);
  return "<header><h1>" + escape_html(job.empty() ? run.name : job) + "</h1>" + state_label(run, now) + "<p>" +
         escape_html(join(parts, " · ")) + "</p></header>\n";
}

std::string tiles(const Run& run) {
  const std::string main = main_metric(run);
  std::string loss = "validation/main/loss";
  if (!values_of(run, loss)) loss = "main/loss";
  return "<div class='tiles'>" + metric_tile(run, main, true) +
         (logged_name(run, loss) != main ? metric_tile(run, loss, false) : "") + time_tile(run) + speed_tile(run) +
         size_tile(run) + "</div>\n";
}

std::string findings_list(const Run& run, double now) {
  constexpr std::size_t kShown = 3;
  const auto findings = findings_of(run, now);
  if (findings.empty()) return "<p class='nothing'>Nothing stands out.</p>";
  std::string shown, others;
  for (std::size_t i = 0; i < findings.size(); ++i) (i < kShown ? shown : others) += item(findings[i]);
  if (!others.empty()) others = "<ul class='findings'>" + others + "</ul>";
  return "<ul class='findings'>" + shown + "</ul>" +
         folded(counted(static_cast<double>(findings.size()) - kShown, "other remark"), others);
}

}  // namespace mn::report
