#include <mn/trainer/extensions/samples.hpp>

#include <cstdio>
#include <utility>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/loader/write_png.hpp>
#include <mn/trainer/extensions/try_to_write.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {

Samples::Samples(Make make, TensorBoard* board) : make_(std::move(make)), board_(board) {
  if (!make_) throw ArgumentError("Samples needs a function that makes samples");
}

void Samples::run(Trainer& trainer) {
  trainer_ = &trainer;
  make_(*this);
  trainer_ = nullptr;
}

void Samples::write(const std::string& folder, const std::string& tag, const std::string& ending,
                    const std::string& bytes) {
  if (trainer_ == nullptr) throw ArgumentError("samples are added inside of the function given to Samples");
  if (tag.empty() || tag.front() == '.' || tag.find('/') != std::string::npos) {
    throw ArgumentError("the tag of a sample names a file, so it has no / and no leading dot; got \"" + tag + "\"");
  }
  if (!trainer_->is_root()) return;
  char number[32];
  std::snprintf(number, sizeof number, "-%08lld", static_cast<long long>(trainer_->iteration()));
  try_to_write(has_failed_, [&] {
    make_folders(trainer_->out() / folder);
    write_file(trainer_->out() / folder / (tag + number + ending), bytes);
  });
}

void Samples::image(const std::string& tag, const at::Tensor& image) {
  const std::string bytes = encode_png(image);
  write("images", tag, ".png", bytes);
  if (board_ != nullptr) board_->add_image(*trainer_, tag, bytes, image.size(-2), image.size(-1));
}

void Samples::text(const std::string& tag, const std::string& text) {
  write("texts", tag, ".txt", text);
  if (board_ != nullptr) board_->add_text(*trainer_, tag, text);
}

}  // namespace mn::extensions
