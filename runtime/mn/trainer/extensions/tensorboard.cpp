#include <mn/trainer/extensions/tensorboard.hpp>

#include <utility>

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
  run(trainer);  // the report at the end
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

}  // namespace mn::extensions
