#include <mn/app/reports.hpp>
#include <mn/train/extensions/dump_graph.hpp>
#include <mn/train/extensions/fail_on_non_number.hpp>
#include <mn/train/extensions/log_report.hpp>
#include <mn/train/extensions/plot_report.hpp>
#include <mn/train/extensions/print_report.hpp>
#include <mn/train/extensions/profile.hpp>
#include <mn/train/extensions/progress_bar.hpp>
#include <mn/train/extensions/snapshot.hpp>
#include <mn/train/extensions/validation.hpp>

namespace mn::jobs {

void add_reports(Trainer& trainer, const CommonOptions& options, std::unique_ptr<Evaluator> evaluator,
                 Interval period) {
  trainer.extend(std::make_unique<extensions::DumpGraph>());
  if (evaluator) trainer.extend(std::make_unique<extensions::Validation>(std::move(evaluator)), {.trigger = period});
  const auto& log = trainer.extend(std::make_unique<extensions::LogReport>(), {.trigger = period});
  trainer.extend(std::make_unique<extensions::PrintReport>(log), {.trigger = period});
  trainer.extend(std::make_unique<extensions::FailOnNonNumber>(log), {.trigger = period});
  trainer.extend(std::make_unique<extensions::PlotReport>(log));
  trainer.extend(std::make_unique<extensions::ProgressBar>());
  if (options.profile) trainer.extend(std::make_unique<extensions::Profile>());
  if (options.checkpoint_every != "none") {
    trainer.extend(std::make_unique<extensions::Snapshot>(), {.trigger = Interval::parse(options.checkpoint_every)});
  }
}

}  // namespace mn::jobs
