#include "imagenet/sample_log.hpp"

#include <mn/trainer/extensions/try_to_write.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::jobs {

using extensions::AppendedFile;

void SampleLog::initialize(Trainer& trainer) {
  file_.emplace(trainer.out() / "samples" /
                    ("from-" + std::to_string(trainer.iteration()) + "-rank-" +
                     std::to_string(trainer.communicator().rank()) + ".txt"),
                AppendedFile::Start::kAnew);
  epoch_ = trainer.epoch();
}

void SampleLog::run(Trainer& trainer) {
  file_->add(std::to_string(trainer.iteration()) + ' ' + std::to_string(epoch_));
  for (const std::int64_t sample : samples_) file_->add(' ' + std::to_string(sample));
  file_->add("\n");
  extensions::try_to_write(has_failed_, [this] { file_->write(); });
  samples_.clear();
  epoch_ = trainer.epoch();
}

void SampleLog::finalize(Trainer& /*trainer*/) {
  extensions::complete(has_failed_, [this] { file_->write(); });
}

}  // namespace mn::jobs
