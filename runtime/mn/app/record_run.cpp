#include <mn/app/record_run.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <utility>

#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/core/text.hpp>
#include <mn/core/unix_time.hpp>
#include <mn/job/end_note.hpp>
#include <mn/report/make_report.hpp>
#include <mn/report/run_files.hpp>
#include <mn/trainer/extensions/appended_file.hpp>
#include <mn/trainer/extensions/fail_on_non_number.hpp>
#include <mn/trainer/extensions/forecast.hpp>
#include <mn/trainer/extensions/plot_report.hpp>
#include <mn/trainer/extensions/print_report.hpp>
#include <mn/trainer/extensions/progress_bar.hpp>
#include <mn/trainer/extensions/run_record.hpp>
#include <mn/trainer/extensions/try_to_write.hpp>

namespace mn::app {
namespace {

namespace ext = mn::extensions;

void write_page(const std::filesystem::path& out) {
  write_file(out / "report.html", make_report({std::filesystem::proximate(out)}));
}

/// Writes OUT/report.html after a report, at most every kPeriod and in at most a hundredth of the time, and at the end.
class ReportPage final : public Extension {
 public:
  explicit ReportPage(const ext::LogReport& log) : log_(log) {}

  [[nodiscard]] std::string name() const override { return "ReportPage"; }
  [[nodiscard]] int priority() const override { return kPriorityReport - 1; }  // after run.jsonl has the new report
  void run(Trainer& trainer) override {
    const auto begin = Clock::now();
    if (!trainer.is_root() || shown_ == log_.count() || begin < next_) return;
    shown_ = log_.count();
    ext::try_to_write(has_failed_, [&] { write_page(trainer.out()); });
    const auto end = Clock::now();
    next_ = end + std::max<Clock::duration>(kPeriod, 99 * (end - begin));
  }
  void finalize(Trainer& trainer) override { write_report(trainer); }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kPeriod = std::chrono::seconds(20);

  const ext::LogReport& log_;
  std::int64_t shown_ = 0;  // number of log entries in the page
  Clock::time_point next_ = Clock::now() + kPeriod;
  bool has_failed_ = false;
};

/// If the job ends badly, the rank that reports the end notes the end in OUT/run.jsonl and OUT/report.html.
class EndRecord final : public Extension {
 public:
  EndRecord() = default;
  ~EndRecord() override {
    if (!runs_) return;
    if (is_root_) write_end_note("an exception has left Trainer::run()");
    set_end_note({});
  }
  EndRecord(const EndRecord&) = delete;
  EndRecord& operator=(const EndRecord&) = delete;

  [[nodiscard]] std::string name() const override { return "EndRecord"; }
  [[nodiscard]] int priority() const override { return kPriorityReport - 2; }  // after run.jsonl has the start
  void initialize(Trainer& trainer) override {
    runs_ = true;
    is_root_ = trainer.is_root();
    *iteration_ = trainer.iteration();
    set_end_note([out = trainer.out(), iteration = iteration_](const std::string& why) {
      if (!std::filesystem::exists(out / "run.jsonl")) return;  // a folder of another node
      ext::AppendedFile file(out / "run.jsonl", ext::AppendedFile::Start::kAfterLastLine);
      const nlohmann::json line = {
          {"event", "end"}, {"time", unix_time()}, {"iteration", iteration->load()}, {"error", why}};
      file.add(json_text(line) + "\n");
      file.write();
      write_page(out);
    });
  }
  void run(Trainer& trainer) override { *iteration_ = trainer.iteration(); }
  void finalize(Trainer&) override {
    runs_ = false;
    set_end_note({});
  }

 private:
  bool runs_ = false;
  bool is_root_ = false;
  std::shared_ptr<std::atomic<std::int64_t>> iteration_ = std::make_shared<std::atomic<std::int64_t>>(0);
};

/// The values of the log that the table and the plot show, by their names.
struct ShownValues {
  std::vector<std::string> columns = {"epoch"};
  std::vector<ext::PlotPanel> panels;
};

ShownValues shown_values(const std::string& metric, std::vector<std::string> validations) {
  if (validations.empty()) validations.emplace_back("validation");
  ShownValues shown;
  for (const std::string& value : {std::string("loss"), metric}) {
    std::vector<std::string> names = {"main/" + value};
    for (const std::string& validation : validations) names.push_back(validation + "/main/" + value);
    shown.columns.insert(shown.columns.end(), names.begin(), names.end());
    shown.panels.push_back({value, std::move(names)});
  }
  shown.columns.emplace_back("elapsed_time");
  return shown;
}

std::string ini_of(const RecordOptions& options) {
  if (options.options != nullptr) return options.options->ini();
  if (options.settings.empty()) return "";
  std::string text = std::string(report::kSettingsHeader) + "\n";
  for (const auto& [name, value] : options.settings) text += one_line(name) + " = " + one_line(value) + "\n";
  return text;
}

}  // namespace

ext::LogReport& record_run(Trainer& trainer, RecordOptions options) {
  const std::string& unit = options.details.unit;
  if (trainer.is_root()) {
    std::printf("%s\n", ext::plan_of(ext::facts_of(trainer), unit).c_str());
    std::fflush(stdout);
    if (const std::string ini = ini_of(options); !ini.empty()) write_file(trainer.out() / "config.ini", ini);
  }
  // The extensions below hold references to the log. The references stay valid, because the trainer owns the log, too.
  auto& log = trainer.extend(std::make_unique<ext::LogReport>(options.derive), {.trigger = options.period});
  const Interval always(1, IntervalUnit::kIteration);  // for extensions that look for a new report in every iteration
  const ShownValues shown = shown_values(options.metric, options.validations);
  trainer.extend(std::make_unique<ext::PrintReport>(log, shown.columns, ext::PrintReport::Header::kOfEntries),
                 {.trigger = always});
  trainer.extend(std::make_unique<ext::FailOnNonNumber>(log));
  trainer.extend(std::make_unique<ext::PlotReport>(log, shown.panels));
  trainer.extend(std::make_unique<ext::RunRecord>(log, options.details));
  trainer.extend(std::make_unique<ReportPage>(log));
  trainer.extend(std::make_unique<EndRecord>());
  trainer.extend(std::make_unique<ext::Forecast>(log));
  trainer.extend(std::make_unique<ext::ProgressBar>(std::move(options.details)));
  return log;
}

void write_report(const Trainer& trainer) {
  if (!trainer.is_root() || !has_run(trainer.out())) return;
  try {
    write_page(trainer.out());
  } catch (const std::exception& error) {
    // The training has succeeded, so if the page cannot be written, this is only a warning.
    log_warning(std::string("no report.html: ") + error.what());
  }
}

}  // namespace mn::app
