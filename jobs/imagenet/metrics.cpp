#include "imagenet/metrics.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include <ATen/DeviceAccelerator.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/stack.h>

#include <mn/core/error.hpp>
#include <mn/trainer/extensions/try_to_write.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::jobs {
namespace {

constexpr std::int64_t kTop = 5;

double peak_memory_gib(Device device) {
  const auto stats = at::accelerator::getDeviceStats(static_cast<c10::DeviceIndex>(device.index));
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return static_cast<double>(stats.allocated_bytes[kAll].peak) / (1 << 30);
}

}  // namespace

at::Tensor labels_of(const at::Tensor& target) { return target.dim() == 1 ? target : target.argmax(1); }

void add_accuracy(Summary& report, const at::Tensor& logits, const at::Tensor& target) {
  const at::NoGradGuard no_grad;
  const std::int64_t top = std::min(kTop, logits.size(1));
  const at::Tensor best = std::get<1>(logits.topk(top, 1));  // (N, top): the best classes, best first
  const at::Tensor hits = best.eq(target.unsqueeze(1)).to(at::kDouble).sum(0) / target.size(0);
  const auto weight = static_cast<double>(target.size(0));
  report.add("accuracy", hits[0], weight);
  report.add("accuracy_top5", hits.sum(), weight);
}

void ResourceReport::run(Trainer& trainer) {
  Communicator& comm = trainer.communicator();
  const bool on_gpu = comm.device().type == DeviceType::kCuda;
  std::array<double, 2> most = {loader_->data_wait_s() - waited_s_, on_gpu ? peak_memory_gib(comm.device()) : 0};
  waited_s_ = loader_->data_wait_s();
  std::int64_t corrupt = loader_->corrupt();
  comm.allreduce(std::span<double>(most), ReduceOp::kMax);
  comm.allreduce(std::span(&corrupt, 1));
  trainer.report("data_wait", most[0]);
  trainer.report("corrupt", static_cast<double>(corrupt));
  if (on_gpu) trainer.report("gpu_memory_gib", most[1]);
}

void CorruptLimit::run(Trainer& trainer) {
  std::int64_t corrupt = loader_->corrupt();
  trainer.communicator().allreduce(std::span(&corrupt, 1));
  if (corrupt <= most_) return;
  throw DataError("the ranks read " + std::to_string(corrupt) + " damaged samples in an epoch, " +
                      std::to_string(most_) + " are allowed (--max-corrupt); `mnshard verify` lists them",
                  true);
}

void SampleLog::initialize(Trainer& trainer) {
  file_.emplace(trainer.out() / "samples" /
                    ("from-" + std::to_string(trainer.iteration()) + "-rank-" +
                     std::to_string(trainer.communicator().rank()) + ".txt"),
                extensions::AppendedFile::Start::kAnew);
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
