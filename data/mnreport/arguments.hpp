/// mnreport's options.
#pragma once

#include <string>

#include <mn/core/options.hpp>

namespace mn::report {

struct Settings {
  std::string output;  ///< empty: OUT/report.html of one run, ./report.html of several
};

inline Options make_options(Settings& settings) {
  Options options(
      "usage: mnreport OUT… [options]\nMakes a page, without outside assets, of the folders that jobs wrote with "
      "--out: "
      "of one its curves, times by rank\nand options, of several a comparison.");
  options.add("output", settings.output, "FILE", "default: OUT/report.html of one run, report.html here of several");
  return options;
}

}  // namespace mn::report
