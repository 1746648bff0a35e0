#include <mn/trainer/extensions/tensorboard.hpp>

#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/ops/histc.h>
#include <ATen/ops/isfinite.h>

#include <mn/core/json.hpp>
#include <mn/trainer/extensions/event_file.hpp>
#include <mn/trainer/extensions/try_to_write.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {

TensorBoard::TensorBoard(const LogReport& log, std::string text) : log_(log), text_(std::move(text)) {}
TensorBoard::~TensorBoard() = default;

void TensorBoard::initialize(Trainer& trainer) {
  written_ = log_.count_read_by(*this, trainer);
  if (!trainer.is_root()) return;
  file_ = std::make_unique<EventFile>(trainer.out() / "tensorboard",
                                      trainer.iteration() + (trainer.is_pending(*this) ? 0 : 1));
  if (!text_.empty()) file_->text("run", trainer.iteration(), text_);
  flush();
}

void TensorBoard::run(Trainer& /*trainer*/) {
  for (const nlohmann::json& entry : log_.since(std::exchange(written_, log_.count()))) {
    if (!file_) return;
    const auto step = entry.at("iteration").get<std::int64_t>();
    for (const auto& [name, value] : entry.items()) {
      if (value.is_number() && name != "iteration") file_->scalar(name, step, value.get<double>());
    }
  }
  flush();
}

void TensorBoard::flush() {
  if (file_) try_to_write(has_failed_, [this] { file_->flush(); });
}

void TensorBoard::finalize(Trainer& trainer) {
  run(trainer);  // writes the report at the end of training
  complete(has_failed_, [this] { file_->flush(); });
}

void TensorBoard::add_image(const Trainer& trainer, const std::string& tag, std::string_view encoded,
                            std::int64_t height, std::int64_t width) {
  if (!file_) return;
  file_->image(tag, trainer.iteration(), encoded, height, width);
  flush();
}

void TensorBoard::add_text(const Trainer& trainer, const std::string& tag, const std::string& text) {
  if (!file_) return;
  file_->text(tag, trainer.iteration(), text);
  flush();
}

void TensorBoard::add_histogram(const Trainer& trainer, const std::string& tag, const at::Tensor& values) {
  constexpr std::int64_t kBuckets = 64;
  if (!file_) return;
  const at::Tensor all = values.detach().reshape(-1).to(at::kFloat);
  const at::Tensor finite = all.masked_select(all.isfinite());
  if (finite.numel() == 0) return;
  Histogram histogram = {.least = finite.min().item<double>(),
                         .most = finite.max().item<double>(),
                         .count = static_cast<double>(finite.numel()),
                         .sum = finite.sum(at::kDouble).item<double>(),
                         .sum_of_squares = finite.to(at::kDouble).square().sum().item<double>(),
                         .buckets = std::vector<double>(kBuckets)};
  // If all values are equal, libtorch's histogram would choose a range of its own.
  if (histogram.most == histogram.least) {
    histogram.buckets = {histogram.count};
  } else {
    const at::Tensor counts = at::histc(finite, kBuckets, histogram.least, histogram.most).to(at::kCPU, at::kDouble);
    std::copy_n(counts.const_data_ptr<double>(), kBuckets, histogram.buckets.begin());
  }
  file_->histogram(tag, trainer.iteration(), histogram);
  flush();
}

}  // namespace mn::extensions
