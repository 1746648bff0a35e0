// A sequence-to-sequence network on two ranks: rank 0 has the encoder, rank 1 the decoder, which begins with the
// encoder's last states, and sends their gradients back. It learns to reverse sequences.
#include <torch/torch.h>

#include <mn/mn.hpp>

using torch::nn::functional::cross_entropy;

constexpr std::int64_t kDigits = 10, kLength = 5, kWidth = 48, kStart = kDigits;

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    if (comm->size() > 2) throw mn::UsageError("give 1 or 2 ranks");
    const bool is_alone = comm->size() == 1, encodes = comm->rank() == 0, decodes = is_alone || !encodes;

    torch::manual_seed(1);  // each rank makes all layers, and trains its own
    torch::nn::Embedding from(kDigits, 16), to(kDigits + 1, 16);
    torch::nn::LSTM first(16, kWidth), second(16, kWidth);
    torch::nn::Linear head(kWidth, kDigits);
    const auto next = is_alone ? std::nullopt : std::optional(1), before = is_alone ? std::nullopt : std::optional(0);
    const auto encoder = mn::create_multi_node_n_step_rnn(first, comm, {}, next);
    const auto decoder = mn::create_multi_node_n_step_rnn(second, comm, before);
    std::vector<torch::nn::Module*> own;
    if (encodes) own.insert(own.end(), {from.get(), encoder.get()});
    if (decodes) own.insert(own.end(), {to.get(), decoder.get(), head.get()});
    std::vector<torch::Tensor> parameters;
    for (torch::nn::Module* each : own) {
      each->to(comm->device());
      for (const auto& parameter : each->parameters()) parameters.push_back(parameter);
    }
    mn::FusedAdam optimizer(parameters, 0.005);

    const auto source = torch::randint(0, kDigits, {kLength, 1200}).to(comm->device()), target = source.flip(0);
    const auto shifted = torch::cat({torch::full_like(target.slice(0, 0, 1), kStart), target.slice(0, 0, kLength - 1)});
    double loss_sum = 0, right = 0;
    for (int step = 0; step < 400; ++step) {
      const std::int64_t begin = step % 20 * 60;
      const auto samples = [&](const torch::Tensor& all) { return all.narrow(1, begin, 60); };
      optimizer.zero_grad();
      torch::Tensor loss;
      std::vector<torch::Tensor> states;
      if (encodes) {
        const auto result = encoder->forward(from(samples(source)));
        states = result.states, loss = result.delegate;
      }
      if (decodes) {
        const auto scores = head(decoder->forward(to(samples(shifted)), states).output).flatten(0, 1);
        loss = cross_entropy(scores, samples(target).flatten());
        if (step >= 380) loss_sum += loss.item<double>();
        if (step >= 380)
          right += scores.argmax(1).eq(samples(target).flatten()).to(torch::kDouble).mean().item<double>();
      }
      loss.backward();
      optimizer.step();
    }
    if (decodes) std::cout << "loss " << loss_sum / 20 << "\naccuracy " << right / 20 << std::endl;
    return 0;
  });
}
