/// mnreport's options.
#pragma once

#include <string>

#include <mn/core/options.hpp>

namespace mn::report {

struct Settings {
  std::string output;  ///< file of the page; empty: OUT/report.html for one run, ./report.html for several runs
  bool calls = false;  ///< print which ranks wait for which ranks; make no page
};

inline Options make_options(Settings& settings) {
  Options options(
      "usage: mnreport OUT… [options]\nMakes a page, without outside assets, of the folders that jobs wrote with "
      "--out. One folder: state, results, what\nto look at, curves, times and options. Several (mnreport runs/*): a "
      "table, the best run first, and curves on top of\neach other. Folders without a log are left out.");
  options.add("output", settings.output, "FILE", "default: OUT/report.html of one run, report.html here of several");
  options.add_flag("calls", settings.calls,
                   "make no page; say which rank is in which call of a communicator, and which ranks lack the call, "
                   "from the files that the ranks wrote to OUT/calls (or MN_CALLS) when the job failed or got SIGUSR2");
  return options;
}

}  // namespace mn::report
