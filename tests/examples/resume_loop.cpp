// Checkpoints and resume in a loop without a Trainer. The first argument is the number of epochs: after
// `resume_loop 4`, `resume_loop 12` on any number of ranks comes to the result of an uninterrupted `resume_loop 12`.
#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include <mn/mn.hpp>

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [&](mn::Job&) {
    const std::int64_t epochs = argc > 1 ? std::stoll(argv[1]) : 12;
    auto comm = mn::create_communicator("auto");
    torch::manual_seed(1);
    const auto x = torch::rand({1000, 3}) * 2 - 1;
    mn::TensorLoader loader(mn::TensorDataset(x, torch::sin(3 * x).sum(1, true)), comm,
                            {.batchsize = 60 / comm->size(), .shuffle = true, .seed = 2});

    torch::nn::Sequential model(torch::nn::Linear(3, 32), torch::nn::Tanh(), torch::nn::Linear(32, 1));
    model->to(comm->device());
    auto optimizer = mn::create_multi_node_optimizer(std::make_unique<mn::FusedAdam>(model->parameters(), 0.02), comm);
    const auto schedule = mn::cosine_schedule(0.02, 12 * loader.steps_per_epoch(), 0.001);

    mn::LoopCheckpoints checkpoints(comm, *optimizer, loader, *model, "resume_loop");
    checkpoints.resume("auto");  // the newest checkpoint in resume_loop/, if there is one
    std::int64_t step = checkpoints.step();
    double best = checkpoints.own().is_null() ? 1e9 : checkpoints.own().get<double>();

    while (loader.epoch() < epochs) {
      double sums[2] = {};
      while (auto batch = loader.next()) {
        optimizer->param_groups().front().options().set_lr(schedule(step++));
        optimizer->zero_grad();
        const auto loss = torch::mse_loss(model->forward(batch->data), batch->target);
        loss.backward();
        optimizer->step(batch->samples);
        sums[0] += loss.item<double>() * batch->samples;
        sums[1] += batch->samples;
      }
      comm->allreduce(sums);
      best = std::min(best, sums[0] / sums[1]);
      checkpoints.save(step, best);  // on all ranks; complete when the call returns
    }
    if (comm->rank() == 0) std::cout << "best " << best << std::endl;
    return 0;
  });
}
