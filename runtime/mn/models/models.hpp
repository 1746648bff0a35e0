/// Networks that classify images. Each create_…() makes a network on the CPU, with random weights from libtorch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>

namespace mn::models {

/// A network that classifies images. Parameters and buffers have torchvision's names if torchvision has the network;
/// those of ConvNeXt and ViT have timm's names.
class Classifier : public torch::nn::Module {
 public:
  /// Maps images (N, 3, H, W) to logits (N, classes).
  [[nodiscard]] virtual torch::Tensor forward(const torch::Tensor& images) = 0;

  /// Returns the logits of forward(). In training mode, the logits of the network's auxiliary classifiers follow.
  [[nodiscard]] virtual std::vector<torch::Tensor> forward_heads(const torch::Tensor& images) {
    return {forward(images)};
  }
};

/// The weight of an auxiliary classifier's loss. The main loss has the weight 1 (Szegedy et al. 2014, arXiv:1409.4842).
inline constexpr double kAuxiliaryWeight = 0.3;

/// Options of ConvNeXt and ViT. Other networks ignore them.
struct ClassifierOptions {
  std::int64_t image_size = 224;  ///< height and width of a ViT's images: its position embedding has this size
  double stochastic_depth = 0;  ///< probability with which training skips the last block; rises from 0 over the blocks
  double dropout = 0;           ///< fraction of the activations that a ViT zeroes in training
  bool recompute = false;       ///< backward computes the blocks' activations again (recompute_activations())
};

/// AlexNet in one column (Krizhevsky 2014, arXiv:1404.5997).
[[nodiscard]] std::shared_ptr<Classifier> create_alexnet(std::int64_t num_classes);
/// Network in network for ImageNet (Lin et al. 2013, arXiv:1312.4400).
[[nodiscard]] std::shared_ptr<Classifier> create_nin(std::int64_t num_classes);
/// GoogLeNet as published (Szegedy et al. 2014, arXiv:1409.4842): biases, local response normalization, 5×5
/// convolutions, two auxiliary classifiers.
[[nodiscard]] std::shared_ptr<Classifier> create_googlenet(std::int64_t num_classes);
/// GoogLeNet with batch normalization after each convolution (Ioffe and Szegedy 2015, arXiv:1502.03167), and 3×3
/// convolutions in place of 5×5. Torchvision's weights can be loaded, because this is torchvision's GoogLeNet.
[[nodiscard]] std::shared_ptr<Classifier> create_googlenetbn(std::int64_t num_classes);
/// ResNet-18: blocks of two 3×3 convolutions (He et al. 2015, arXiv:1512.03385).
[[nodiscard]] std::shared_ptr<Classifier> create_resnet18(std::int64_t num_classes);
/// ResNet-50: blocks of a 1×1, a 3×3 and a 1×1 convolution. The 3×3 convolution has the block's stride.
[[nodiscard]] std::shared_ptr<Classifier> create_resnet50(std::int64_t num_classes);
/// ConvNeXt-T, -S and -B (Liu et al. 2022, arXiv:2201.03545).
/// @{
[[nodiscard]] std::shared_ptr<Classifier> create_convnext_tiny(std::int64_t num_classes,
                                                               const ClassifierOptions& options = {});
[[nodiscard]] std::shared_ptr<Classifier> create_convnext_small(std::int64_t num_classes,
                                                                const ClassifierOptions& options = {});
[[nodiscard]] std::shared_ptr<Classifier> create_convnext_base(std::int64_t num_classes,
                                                               const ClassifierOptions& options = {});
/// @}

/// ViT-Ti/16, ViT-S/16 (Touvron et al. 2020, arXiv:2012.12877) and ViT-B/16 (Dosovitskiy et al. 2020,
/// arXiv:2010.11929). Throws ArgumentError unless options.image_size is a multiple of 16.
/// @{
[[nodiscard]] std::shared_ptr<Classifier> create_vit_ti_16(std::int64_t num_classes,
                                                           const ClassifierOptions& options = {});
[[nodiscard]] std::shared_ptr<Classifier> create_vit_s_16(std::int64_t num_classes,
                                                          const ClassifierOptions& options = {});
[[nodiscard]] std::shared_ptr<Classifier> create_vit_b_16(std::int64_t num_classes,
                                                          const ClassifierOptions& options = {});
/// @}

/// ResNet-18 for images of 32 × 32: begins with a 3×3 convolution of stride 1, without pooling.
[[nodiscard]] std::shared_ptr<Classifier> create_small_resnet18(std::int64_t num_classes);
/// VGG16 with batch normalization for images of 32 × 32 (Simonyan and Zisserman 2014, arXiv:1409.1556, configuration
/// D). One linear layer follows the last pooling, as is usual for CIFAR.
[[nodiscard]] std::shared_ptr<Classifier> create_small_vgg16(std::int64_t num_classes);

/// The names that create_model() takes.
[[nodiscard]] std::vector<std::string> model_names();
/// Makes the network called `name`. For an unknown name, like the functions below, throws a UsageError with all names.
[[nodiscard]] std::shared_ptr<Classifier> create_model(const std::string& name, std::int64_t num_classes,
                                                       const ClassifierOptions& options = {});
/// The smallest height and width of images that the network can take.
[[nodiscard]] std::int64_t min_image_size(const std::string& name);
/// The smallest height and width of images with which a minibatch of one image can train. Otherwise batch normalization
/// would get a single value in each channel, and a single value has no variance.
[[nodiscard]] std::int64_t min_image_size_alone(const std::string& name);
/// Height and width of images must be multiples of this number.
[[nodiscard]] std::int64_t image_size_step(const std::string& name);
/// True if the network has blocks that ClassifierOptions::stochastic_depth and recompute act on.
[[nodiscard]] bool has_blocks(const std::string& name);
/// True if ClassifierOptions::dropout acts on the network.
[[nodiscard]] bool has_dropout_option(const std::string& name);
/// A good learning rate for SGD with momentum and 256 samples in a step.
[[nodiscard]] double sgd_learning_rate(const std::string& name);

}  // namespace mn::models
