/// mncheck's options.
#pragma once

#include <cstdint>
#include <string>

#include <mn/core/options.hpp>

namespace mn::check {

struct Settings {
  std::string output;     ///< output file of merge
  std::int64_t keep = 3;  ///< checkpoints that prune keeps
  bool all = false;       ///< merge all tensors; false: only the model's tensors
};

inline Options make_options(Settings& settings) {
  Options options(
      "usage: mncheck list DIR | verify DIR | diff A B | prune OUT --keep N | merge DIR --output FILE\n"
      "Looks at the checkpoints of training jobs. DIR is a job's output folder (--out), or one checkpoint:\n"
      "  list    prints the checkpoints with iteration, ranks and size; \"kept\" marks the best and pinned "
      "checkpoints\n"
      "  verify  reads every byte and compares the checksums; exit status 1 if a checkpoint is damaged\n"
      "  diff    prints the tensors that differ between two checkpoints; exit status 1 if a tensor differs\n"
      "  prune   keeps the newest N undamaged checkpoints, the best and the pinned; removes older checkpoints and the\n"
      "          leftovers of stopped saves\n"
      "  merge   writes a safetensors file with the model's weights");
  options.add("output", settings.output, "FILE", "merge: the file to write");
  options.add("keep", settings.keep, "prune: how many of the newest to keep", 1);
  options.add_flag("all", settings.all,
                   "merge: every tensor, the optimizer's state too, by its name in the checkpoint");
  return options;
}

}  // namespace mn::check
