#include <mn/report/findings.hpp>

#include <algorithm>
#include <array>
#include <map>

#include <mn/core/text.hpp>
#include <mn/report/format.hpp>
#include <mn/report/metrics.hpp>
#include <mn/report/time_parts.hpp>

namespace mn::report {
namespace {

using nlohmann::json;

constexpr double kResultAtStake = 2;  // cost if the result may be wrong: higher than all costs in time
constexpr const char* kStraggler = "straggler: ";

/// Why ranks may wait for minibatches: the name of a time in run.jsonl, the cause, and a remedy.
constexpr std::array<std::array<const char*, 3>, 4> kDataCauses = {
    {{"storage_s", "reading from the storage", "copy the data to the nodes"},
     {"transform_s", "decoding and augmentation", "give each rank more cores, or resize the images beforehand"},
     {"copy_s", "copies to the device", "send smaller samples, such as uint8 images"},
     {"queue_s", "minibatches that had not been begun", "raise LoaderOptions::prefetch_bytes or prefetch"}}};
constexpr std::size_t kStorage = 0, kCopy = 2;  // two rows of kDataCauses

void find_bad_numbers(const Run& run, std::vector<Finding>& findings) {
  for (const json& entry : run.log) {
    const auto bad = std::ranges::find_if(entry.items(), [](const auto& item) { return item.value().is_null(); });
    if (bad == entry.items().end()) continue;
    findings.push_back(
        {kResultAtStake + 2,
         shown_name(run, bad.key()) + " was NaN or infinite at iteration " + entry.at("iteration").dump(),
         "lower the learning rate, clip gradients (" + advised(run, "clip-norm", "mn::gradient_clipping") +
             "), or look at the data of this step"});
    return;
  }
}

void find_overfitting(const Run& run, std::vector<Finding>& findings) {
  constexpr const char* kLoss = "validation/main/loss";
  const auto validated = values_of(run, kLoss), trained = values_of(run, "main/loss");
  if (!validated || !trained || validated->best_at.empty()) return;
  const auto points = points_of(run, kLoss, false);
  const bool rises = validated->last > 1.1 * validated->best && validated->best > 0;
  if (points.size() < 4 || !rises || trained->last > 1.05 * trained->best) return;
  findings.push_back({kResultAtStake,
                      shown_name(run, kLoss) + " was best in " + validated->best_at + " (" +
                          short_number(validated->best) + ") and is " + short_number(validated->last) +
                          " now: the model overfits",
                      advised(run, "best", "extensions::BestSnapshot") + " keeps the best checkpoint, " +
                          advised(run, "early-stop", "extensions::EarlyStopping") +
                          " ends training there; more data or regularization"});
}

void find_straggler_cost(const Run& run, std::vector<Finding>& findings) {
  const Straggler slow = find_straggler(run);
  if (slow.share <= 0) return;
  const std::string who = "rank " + std::to_string(slow.rank);
  std::string reason = "compare the nodes with mnlaunch --doctor";
  for (const std::string& text : run.warnings) {  // "…straggler: rank 1 on host n1 takes … for it: REASON"
    constexpr std::string_view kBefore = "all wait for it: ";
    const auto at = text.find(kBefore);
    const bool is_its = text.find(kStraggler + who + " ") != std::string::npos;
    if (is_its && at != std::string::npos && text.find("no difference", at) == std::string::npos) {
      reason = text.substr(at + kBefore.size());
    }
  }
  findings.push_back({slow.share,
                      who + (slow.rank < run.hosts.size() ? " on host " + run.hosts[slow.rank] : "") +
                          " kept the others waiting for " + percent(slow.share) + " of the steps' time",
                      "it took " + short_number(slow.ratio) + " times as long as the median rank, in " +
                          std::to_string(slow.reports) + " of " + std::to_string(run.times.size()) +
                          " reports: " + reason});
}

void find_data_waits(const Run& run, const TimeParts& parts, double whole, std::vector<Finding>& findings) {
  const double share = parts[kData] / whole;
  if (share < 0.1) return;
  std::array<double, kDataCauses.size()> causes = {};
  double waited = 0;
  for (const json& line : run.times) {
    waited += sum_of(line, "data_s") * line.at("steps").get<double>();
    for (std::size_t i = 0; i < causes.size(); ++i) {
      causes[i] += sum_of(line, kDataCauses[i][0]) * line.at("steps").get<double>();
    }
  }
  const auto main = static_cast<std::size_t>(std::ranges::max_element(causes) - causes.begin());
  std::string advice = kDataCauses[main][1] + std::string(": ") + kDataCauses[main][2];
  if (main == kStorage) advice += " (" + advised(run, "stage", "StageOptions") + ")";
  if (main == kCopy && run.device == "CPU") {
    advice = "the handover of finished minibatches: give each rank more cores, or make minibatches larger (" +
             advised(run, "batchsize", "LoaderOptions::batchsize") + ")";
  }
  const bool is_known = causes[main] >= waited / 4;  // otherwise the iterator has recorded no causes
  findings.push_back({share, "ranks waited for minibatches for " + percent(share) + " of the time",
                      is_known ? percent(causes[main] / waited) + " of that for " + advice : ""});
}

void find_costs(const Run& run, std::vector<Finding>& findings) {
  const TimeParts parts = time_parts(run);
  double whole = 0;
  for (const double part : parts) whole += part;
  if (whole <= 0) return;
  find_data_waits(run, parts, whole, findings);
  const auto add = [&](Part part, double least, const char* what, const std::string& advice) {
    const double share = parts[part] / whole;
    if (share >= least)
      findings.push_back({share, std::string(what) + " took " + percent(share) + " of the time", advice});
  };
  if (find_straggler(run).share <= 0) {  // if there is a straggler, the ranks wait for it
    add(kCommunication, 0.2, "communication and waiting for other ranks",
        "larger minibatches (" + advised(run, "batchsize", "LoaderOptions::batchsize") + ", " +
            advised(run, "accumulate", "TrainerOptions::accumulate") + "), " +
            advised(run, "compress", "OptimizerOptions::compression") + ", or fewer ranks");
  }
  add(kValidation, 0.3, "validation", "validate less often: " + advised(run, "val-every", "the trigger of Validation"));
  const std::string saves = advised(run, "checkpoint-every", "");
  add(kCheckpoint, 0.05, "checkpoints",
      "write fewer: " + (saves.empty() ? "the trigger of Snapshot, or Snapshot(keep, true)" : saves + ", or auto"));
}

/// Each text of a warning is one finding. find_straggler_cost() reports stragglers.
void find_warnings(const Run& run, std::vector<Finding>& findings) {
  std::map<std::string, std::vector<std::string>> ranks_by_text;
  std::vector<std::string> order;
  for (const std::string& warning : run.warnings) {  // "rank 1 (n1): TEXT"
    if (warning.find(kStraggler) != std::string::npos) continue;
    const auto colon = warning.find("): ");
    const bool has_rank = warning.starts_with("rank ") && colon != std::string::npos;
    const std::string text = has_rank ? warning.substr(colon + 3) : warning;
    auto& ranks = ranks_by_text[text];
    if (ranks.empty()) order.push_back(text);
    ranks.push_back(has_rank ? warning.substr(0, colon + 1) : "");
  }
  for (const std::string& text : order) {
    const auto& ranks = ranks_by_text[text];
    findings.push_back(
        {0, "warning: " + text, ranks.size() > 3 ? std::to_string(ranks.size()) + " ranks" : join(ranks)});
  }
}

}  // namespace

State state_of(const Run& run, double now) {
  constexpr double kMinQuiet_s = 60, kMinLost_s = 1800, kPauses = 3;
  if (!run.error.empty()) return State::kFailed;
  if (run.ended) {
    return run.why.ends_with("after a checkpoint") ? State::kStopped : State::kFinished;  // Trainer::end_reason()
  }
  const double silence_s = now - run.last_time.value_or(0), usual_s = kPauses * run.longest_pause_s;
  if (silence_s >= std::max(kMinLost_s, usual_s)) return State::kLost;
  const bool has_reported = usual_s > 0;  // otherwise the usual time between two reports is unknown
  return has_reported && silence_s >= std::max(kMinQuiet_s, usual_s) ? State::kQuiet : State::kRunning;
}

std::string quiet_text(const Run& run, double now) {
  return "no report for " + duration_text(now - run.last_time.value_or(0));
}

std::vector<Finding> findings_of(const Run& run, double now) {
  std::vector<Finding> findings;
  if (!run.command.empty() && state_of(run, now) == State::kLost) {
    findings.push_back({kResultAtStake + 1, "the run has no end: it was ended from outside, or hangs",
                        "look at the last lines of its output, and at mnreport --calls " + run.folder.string()});
  }
  if (!run.error.empty()) {
    findings.push_back({kResultAtStake + 1, "the run ended with an error", run.error});
  }
  find_bad_numbers(run, findings);
  find_overfitting(run, findings);
  find_straggler_cost(run, findings);
  find_costs(run, findings);
  if (run.command.empty()) {
    findings.push_back({0, "there is no run.jsonl: state, hosts, speed of each part and settings are not known",
                        "in a program of your own, add them by record_run(trainer) (mn/app/record_run.hpp)"});
  }
  std::ranges::stable_sort(findings, std::ranges::greater(), &Finding::cost);
  find_warnings(run, findings);
  return findings;
}

}  // namespace mn::report
