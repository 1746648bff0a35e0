/// Writes images and texts of the program's choice during training, to show what the model does.
#pragma once

#include <functional>
#include <string>

#include <ATen/core/Tensor.h>

#include <mn/trainer/extension.hpp>
#include <mn/trainer/extensions/tensorboard.hpp>

namespace mn::extensions {

/// Calls a function of the program, once an epoch by default, to add images and texts. Rank 0 writes
/// OUT/images/TAG-ITERATION.png, OUT/texts/TAG-ITERATION.txt, and the TensorBoard if there is one. report.html shows
/// images and texts, the newest first. If a write fails, rank 0 logs a warning.
///
///   trainer.extend(std::make_unique<mn::extensions::Samples>([=](mn::extensions::Samples& samples) {
///     samples.image("digits", mn::image_grid(generator->forward(noise)));
///   }));
class Samples final : public Extension {
 public:
  /// Makes samples and adds them by image() and text(). All ranks call this function, so it may make collective calls;
  /// only rank 0's samples are written. Random numbers drawn from libtorch's generators change the random numbers of
  /// the training.
  using Make = std::function<void(Samples&)>;

  /// `board` belongs to the same trainer, and must outlive this extension. If `board` is null, nothing is added to a
  /// TensorBoard. Throws ArgumentError if `make` is empty.
  explicit Samples(Make make, TensorBoard* board = nullptr);

  /// Called by `make`: adds an image. The image must have a form that write_png() accepts. Throws ArgumentError if
  /// `tag` cannot be the name of a file.
  void image(const std::string& tag, const at::Tensor& image);
  /// Called by `make`: adds a text under the name `tag`.
  void text(const std::string& tag, const std::string& text);

  [[nodiscard]] std::string name() const override { return "Samples"; }
  [[nodiscard]] Interval trigger() const override { return {1, IntervalUnit::kEpoch}; }
  [[nodiscard]] Duration duration() const override { return Duration::kLong; }
  void run(Trainer& trainer) override;

 private:
  void write(const std::string& folder, const std::string& tag, const std::string& ending, const std::string& bytes);

  Make make_;
  TensorBoard* board_;
  Trainer* trainer_ = nullptr;  // while run() runs
  bool has_failed_ = false;
};

}  // namespace mn::extensions
