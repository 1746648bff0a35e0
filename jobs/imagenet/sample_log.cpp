#include "imagenet/sample_log.hpp"

#include <mn/core/error.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::jobs {

void SampleLog::initialize(Trainer& trainer) {
  const std::filesystem::path folder = trainer.out() / "samples";
  std::filesystem::create_directories(folder);
  path_ = folder / ("from-" + std::to_string(trainer.iteration()) + "-rank-" +
                    std::to_string(trainer.communicator().rank()) + ".txt");
  file_.open(path_, std::ios::trunc);
  epoch_ = trainer.epoch();
}

void SampleLog::run(Trainer& trainer) {
  file_ << trainer.iteration() << ' ' << epoch_;
  for (const std::int64_t sample : samples_) file_ << ' ' << sample;
  file_ << std::endl;  // a kill leaves whole lines
  if (!file_) throw DataError("cannot write " + path_.string());
  samples_.clear();
  epoch_ = trainer.epoch();
}

}  // namespace mn::jobs
