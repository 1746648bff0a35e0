// kernel_bench: the bandwidth of fused operators, batch normalization over ranks and clipping, reads and writes
// together, beside that of a copy on the same device. The bytes are those that the headers count, so a share below 1
// says what the kernels miss. Without a GPU, or with --rehearse, small tensors on the CPU.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>

#include <torch/torch.h>

#include <mn/comm/communicator.hpp>
#include <mn/job/job.hpp>
#include <mn/kernels/layer_norm.hpp>
#include <mn/kernels/operators.hpp>
#include <mn/kernels/token_loss.hpp>
#include <mn/nn/batch_norm.hpp>
#include <mn/optimizers/fused_adam.hpp>
#include <mn/trainer/optimizer.hpp>

namespace {

struct Bench {
  torch::Device device;
  double copy_rate = 0;  // bytes a second, read and written

  [[nodiscard]] double seconds(const std::function<void()>& call) const {
    const auto batch = [&](int repeats) {
      finish();
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < repeats; ++i) call();
      finish();
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / repeats;
    };
    batch(2);
    const int repeats = std::clamp(static_cast<int>(0.05 / batch(2)), 1, 1000);
    double best = 1e9;
    for (int i = 0; i < 5; ++i) best = std::min(best, batch(repeats));
    return best;
  }

  void print(const std::string& what, double bytes, const std::function<void()>& call) const {
    const torch::NoGradGuard no_grad;
    const double time = seconds([&] {
      const torch::AutoGradMode with_gradients(true);
      call();
    });
    std::printf("%-36s %9.1f us %9.1f GB/s, %.2f of the copy's\n", what.c_str(), time * 1e6, bytes / time / 1e9,
                bytes / time / copy_rate);
    std::fflush(stdout);
  }

  void finish() const {
    if (device.is_cuda()) torch::cuda::synchronize();
  }
};

void measure_copy(Bench& bench, std::int64_t count) {
  const auto from = torch::zeros({count}, bench.device), to = torch::empty_like(from);
  const double time = bench.seconds([&] { to.copy_(from); });
  bench.copy_rate = 8.0 * static_cast<double>(count) / time;
  std::printf("%-36s %9.1f us %9.1f GB/s\n", "copy", time * 1e6, bench.copy_rate / 1e9);
}

/// Loss and gradient of GPT-2's logits. The gradients of one call are the next call's logits.
void measure_loss(const Bench& bench, std::int64_t rows, std::int64_t vocabulary) {
  const auto leaf = torch::zeros({rows, vocabulary}, torch::TensorOptions(bench.device).dtype(torch::kBFloat16));
  leaf.requires_grad_();
  const auto targets = torch::randint(vocabulary, {rows}, torch::TensorOptions(bench.device).dtype(torch::kLong));
  const std::string name = "token loss, bfloat16, " + std::to_string(vocabulary);
  bench.print(name, 4.0 * static_cast<double>(leaf.numel()),
              [&] { static_cast<void>(mn::token_loss(leaf.view_as(leaf), targets, {.overwrite_logits = true})); });
}

void measure_norm(const Bench& bench, std::int64_t rows, std::int64_t width) {
  const auto options = torch::TensorOptions(bench.device);
  const auto stream = torch::randn({rows, width}, options).requires_grad_();
  const auto branch = torch::randn({rows, width}, options.dtype(torch::kBFloat16)).requires_grad_();
  const auto weight = torch::ones({width}, options).requires_grad_(), bias = torch::zeros({width}, options);
  const auto d_sum = torch::randn_like(stream).detach(), d_normalized = torch::randn_like(branch).detach();
  const double count = static_cast<double>(stream.numel());
  mn::ResidualNorm made;
  bench.print("layer norm, " + std::to_string(width) + ", forward", 12 * count,
              [&] { made = mn::layer_norm_residual(stream, branch, weight, bias); });
  bench.print("layer norm, " + std::to_string(width) + ", backward", 16 * count, [&] {
    static_cast<void>(torch::autograd::grad({made.sum, made.normalized}, {stream, branch, weight},
                                            {d_sum, d_normalized}, /*retain_graph=*/true));
  });
}

/// Batch normalization and ReLU in training, and with a shortcut in evaluation, as in ResNet-50.
void measure_batch_norm(const Bench& bench, std::int64_t images, std::int64_t channels) {
  torch::nn::BatchNorm2d layer(channels);
  layer->to(bench.device);
  const auto options = torch::TensorOptions(bench.device).dtype(torch::kBFloat16);
  const auto x = torch::randn({images, channels, 56, 56}, options).contiguous(torch::MemoryFormat::ChannelsLast);
  const auto added = x.clone(), dy = x.clone();
  x.requires_grad_();
  const double count = static_cast<double>(x.numel());
  const std::string name = "batch norm + ReLU, " + std::to_string(channels);
  torch::Tensor y;
  bench.print(name + ", forward", 6 * count, [&] { y = mn::batch_norm_relu(layer, x); });
  bench.print(name + ", backward", 10 * count,
              [&] { static_cast<void>(torch::autograd::grad({y}, {x}, {dy}, /*retain_graph=*/true)); });
  layer->eval();
  bench.print(name + ", evaluation + sum", 6 * count, [&] { y = mn::batch_norm_relu(layer, x, added); });
}

void measure_gelu(const Bench& bench, std::int64_t rows, std::int64_t width) {
  const auto x = torch::randn({rows, width}, torch::TensorOptions(bench.device).dtype(torch::kBFloat16));
  const auto d_y = torch::randn_like(x);
  bench.print("gelu and bias, " + std::to_string(width) + ", backward", 6.0 * static_cast<double>(x.numel()), [&] {
    static_cast<void>(mn::kernels::call_operator<mn::kernels::GeluBackwardSignature>("mn::gelu_backward", d_y, x));
  });
}

/// An update of bfloat16 weights with float32 masters. Gradients are copied to float32 (6 bytes), libtorch's kernel
/// reads and writes masters and moments (28), and masters are rounded (6).
void measure_masters(const Bench& bench, std::int64_t rows, std::int64_t width) {
  const auto options = torch::TensorOptions(bench.device).dtype(torch::kBFloat16);
  const auto weight = torch::randn({rows, width}, options).requires_grad_();
  weight.mutable_grad() = torch::randn({rows, width}, options);
  mn::FusedAdamW optimizer(std::vector<torch::Tensor>{weight}, torch::optim::AdamWOptions(1e-4));
  optimizer.keep_masters();
  bench.print("AdamW with masters", 40.0 * static_cast<double>(weight.numel()), [&] { optimizer.step(); });
}

/// The first normalization of ResNet-50, over the ranks of the job and by libtorch for one rank alone.
void measure_norm_over_ranks(const Bench& bench, const std::shared_ptr<mn::Communicator>& comm, std::int64_t images) {
  const auto x = torch::randn({images, 64, 112, 112}, bench.device)
                     .to(torch::kBFloat16)
                     .contiguous(at::MemoryFormat::ChannelsLast)
                     .requires_grad_();
  const auto dy = torch::ones_like(x);
  mn::MultiNodeBatchNorm over_ranks(comm, torch::nn::BatchNormOptions(64));
  torch::nn::BatchNorm2d alone(64);
  over_ranks->to(bench.device), alone->to(bench.device);
  const double bytes = 16.0 * static_cast<double>(x.numel());
  const auto measure = [&](const std::string& name, auto& norm) {
    bench.print(name, bytes, [&] { static_cast<void>(torch::autograd::grad({norm->forward(x)}, {x}, {dy})); });
  };
  measure("batch norm over ranks, 64 channels", over_ranks);
  measure("batch norm of libtorch, 64 channels", alone);
}

/// As many tensors and elements as GPT-2 124M has gradients.
void measure_clipping(const Bench& bench, std::int64_t part) {
  std::vector<at::Tensor> parameters;
  for (int i = 0; i < 148; ++i) {
    parameters.push_back(torch::zeros({124'475'904 / 148 / part}, bench.device));
    parameters.back().mutable_grad() = torch::ones_like(parameters.back());
  }
  const double elements = 148.0 * static_cast<double>(parameters[0].numel());
  double limit = std::sqrt(elements);  // the norm; each call shortens the gradients a little
  bench.print("clip 148 gradients", 12 * elements, [&] { mn::gradient_clipping(limit *= 0.99)(parameters); });
}

int run(bool rehearse) {
  Bench bench{rehearse ? torch::kCPU : torch::kCUDA};
  const auto comm = mn::create_communicator(
      "auto", MPI_COMM_WORLD, rehearse ? mn::CommunicatorOptions{.device = mn::Device()} : mn::CommunicatorOptions());
  const std::int64_t part = rehearse ? 256 : 1;  // of the sizes of GPT-2 in training
  measure_copy(bench, (std::int64_t{1} << 28) / part);
  measure_loss(bench, 16384 / part, 50304);  // as jobs/gpt pads no vocabulary, rows of another length too
  measure_loss(bench, 16384 / part, 50257);
  measure_norm(bench, 65536 / part, 768);
  measure_norm(bench, 16384 / part, 4096);
  measure_batch_norm(bench, 256 / part, 256);
  measure_gelu(bench, 16384 / part, 3072);
  measure_masters(bench, 131072 / part, 768);
  measure_norm_over_ranks(bench, comm, 256 / part);
  measure_clipping(bench, part);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool rehearse = (argc > 1 && std::string(argv[1]) == "--rehearse") || !torch::cuda::is_available();
  return mn::run_job(argc, argv, [&](mn::Job&) { return run(rehearse); });
}
