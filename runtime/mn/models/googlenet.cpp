#include <mn/models/models.hpp>

#include <torch/torch.h>

#include <mn/nn/batch_norm.hpp>

namespace mn::models {
namespace {

namespace nn = torch::nn;

struct Style {
  bool batch_norm;
  std::int64_t branch3_kernel;
  double dropout;
};
constexpr Style kPublished = {false, 5, 0.4};
constexpr Style kBatchNorm = {true, 3, 0.2};

class BasicConv2dImpl : public nn::Module {
 public:
  BasicConv2dImpl(const Style& style, nn::Conv2dOptions options)
      : conv_(register_module("conv", nn::Conv2d(options.bias(!style.batch_norm)))) {
    if (style.batch_norm) {
      bn_ = register_module("bn", nn::BatchNorm2d(nn::BatchNorm2dOptions(options.out_channels()).eps(0.001)));
    }
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = conv_(x);
    return bn_.is_empty() ? y.relu_() : batch_norm_relu(bn_, y);
  }

 private:
  nn::Conv2d conv_;
  nn::BatchNorm2d bn_ = nullptr;
};
TORCH_MODULE(BasicConv2d);

nn::Conv2dOptions conv(std::int64_t in, std::int64_t out, std::int64_t kernel) {
  return nn::Conv2dOptions(in, out, kernel).padding(kernel / 2);
}

torch::Tensor pool(const torch::Tensor& x, std::int64_t kernel, std::int64_t stride, std::int64_t padding = 0) {
  return torch::max_pool2d(x, kernel, stride, padding, /*dilation=*/1, /*ceil_mode=*/true);
}

struct InceptionWidths {
  std::int64_t in, ones, threes_reduced, threes, fives_reduced, fives, pooled;
};

class InceptionImpl : public nn::Module {
 public:
  InceptionImpl(const Style& style, const InceptionWidths& w)
      : branch1_(register_module("branch1", BasicConv2d(style, conv(w.in, w.ones, 1)))),
        branch2_(register_module("branch2", nn::Sequential(BasicConv2d(style, conv(w.in, w.threes_reduced, 1)),
                                                           BasicConv2d(style, conv(w.threes_reduced, w.threes, 3))))),
        branch3_(register_module(
            "branch3", nn::Sequential(BasicConv2d(style, conv(w.in, w.fives_reduced, 1)),
                                      BasicConv2d(style, conv(w.fives_reduced, w.fives, style.branch3_kernel))))),
        branch4_(register_module(
            "branch4", nn::Sequential(nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(1).padding(1).ceil_mode(true)),
                                      BasicConv2d(style, conv(w.in, w.pooled, 1))))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    return torch::cat({branch1_(x), branch2_->forward(x), branch3_->forward(x), branch4_->forward(x)}, 1);
  }

 private:
  BasicConv2d branch1_;
  nn::Sequential branch2_, branch3_, branch4_;
};
TORCH_MODULE(Inception);

class InceptionAuxImpl : public nn::Module {
 public:
  InceptionAuxImpl(const Style& style, std::int64_t in, std::int64_t num_classes)
      : conv_(register_module("conv", BasicConv2d(style, conv(in, 128, 1)))),
        fc1_(register_module("fc1", nn::Linear(2048, 1024))),
        fc2_(register_module("fc2", nn::Linear(1024, num_classes))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = conv_(torch::adaptive_avg_pool2d(x, {4, 4}));  // (N, 128, 4, 4)
    y = fc1_(y.flatten(1)).relu_();
    return fc2_(torch::dropout(y, 0.7, is_training()));
  }

 private:
  BasicConv2d conv_;
  nn::Linear fc1_, fc2_;
};
TORCH_MODULE(InceptionAux);

class GoogLeNet : public Classifier {
 public:
  GoogLeNet(const Style& style, std::int64_t num_classes) : style_(style) {
    conv1_ = register_module("conv1", BasicConv2d(style, conv(3, 64, 7).stride(2)));
    conv2_ = register_module("conv2", BasicConv2d(style, conv(64, 64, 1)));
    conv3_ = register_module("conv3", BasicConv2d(style, conv(64, 192, 3)));
    const auto inception = [&](const char* name, const InceptionWidths& widths) {
      return register_module(name, Inception(style, widths));
    };
    inception3a_ = inception("inception3a", {192, 64, 96, 128, 16, 32, 32});
    inception3b_ = inception("inception3b", {256, 128, 128, 192, 32, 96, 64});
    inception4a_ = inception("inception4a", {480, 192, 96, 208, 16, 48, 64});
    inception4b_ = inception("inception4b", {512, 160, 112, 224, 24, 64, 64});
    inception4c_ = inception("inception4c", {512, 128, 128, 256, 24, 64, 64});
    inception4d_ = inception("inception4d", {512, 112, 144, 288, 32, 64, 64});
    inception4e_ = inception("inception4e", {528, 256, 160, 320, 32, 128, 128});
    inception5a_ = inception("inception5a", {832, 256, 160, 320, 32, 128, 128});
    inception5b_ = inception("inception5b", {832, 384, 192, 384, 48, 128, 128});
    aux1_ = register_module("aux1", InceptionAux(style, 512, num_classes));
    aux2_ = register_module("aux2", InceptionAux(style, 528, num_classes));
    fc_ = register_module("fc", nn::Linear(1024, num_classes));
    initialize();
  }

  torch::Tensor forward(const torch::Tensor& images) override { return forward_heads(images).front(); }

  std::vector<torch::Tensor> forward_heads(const torch::Tensor& images) override {
    const auto normalize = [this](const torch::Tensor& x) {
      return style_.batch_norm ? x : nn::functional::local_response_norm(x, response_);
    };
    torch::Tensor x = normalize(pool(conv1_(images), 3, 2));  // (N, 64, 56, 56) at 224
    x = pool(normalize(conv3_(conv2_(x))), 3, 2);             // (N, 192, 28, 28)
    x = pool(inception3b_(inception3a_(x)), 3, 2);            // (N, 480, 14, 14)
    x = inception4a_(x);                                      // (N, 512, 14, 14)
    const torch::Tensor aux1 = is_training() ? aux1_(x) : torch::Tensor();
    x = inception4d_(inception4c_(inception4b_(x)));  // (N, 528, 14, 14)
    const torch::Tensor aux2 = is_training() ? aux2_(x) : torch::Tensor();
    x = pool(inception4e_(x), style_.batch_norm ? 2 : 3, 2);  // (N, 832, 7, 7)
    x = inception5b_(inception5a_(x));                        // (N, 1024, 7, 7)
    x = torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
    const torch::Tensor logits = fc_(torch::dropout(x, style_.dropout, is_training()));
    return is_training() ? std::vector{logits, aux1, aux2} : std::vector{logits};
  }

 private:
  /// With batch normalization, draws weights as torchvision does. Without it, draws them as Caffe's reference does,
  /// because with torchvision's small weights the activations would shrink from layer to layer.
  void initialize() {
    for (const auto& module : modules(/*include_self=*/false)) {
      if (auto* convolution = module->as<nn::Conv2d>()) initialize(convolution->weight, convolution->bias);
      if (auto* linear = module->as<nn::Linear>()) initialize(linear->weight, linear->bias);
    }
  }
  void initialize(torch::Tensor& weight, torch::Tensor& bias) const {
    if (style_.batch_norm) {
      nn::init::normal_(weight, 0, 0.01);
    } else {
      nn::init::xavier_uniform_(weight);
      nn::init::constant_(bias, 0.2);
    }
  }

  Style style_;
  nn::functional::LocalResponseNormFuncOptions response_{5};
  BasicConv2d conv1_ = nullptr, conv2_ = nullptr, conv3_ = nullptr;
  Inception inception3a_ = nullptr, inception3b_ = nullptr;
  Inception inception4a_ = nullptr, inception4b_ = nullptr, inception4c_ = nullptr, inception4d_ = nullptr,
            inception4e_ = nullptr;
  Inception inception5a_ = nullptr, inception5b_ = nullptr;
  InceptionAux aux1_ = nullptr, aux2_ = nullptr;
  nn::Linear fc_ = nullptr;
};

}  // namespace

std::shared_ptr<Classifier> create_googlenet(std::int64_t num_classes) {
  return std::make_shared<GoogLeNet>(kPublished, num_classes);
}

std::shared_ptr<Classifier> create_googlenetbn(std::int64_t num_classes) {
  return std::make_shared<GoogLeNet>(kBatchNorm, num_classes);
}

}  // namespace mn::models
