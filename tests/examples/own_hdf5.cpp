// A file of one's own: rank 0 writes an HDF5 file as a simulation would, every rank then reads the rows of its
// minibatches. One function makes it an iterator. The program links mn::mn and hdf5::hdf5, both of find_package(mn).
#include <hdf5.h>
#include <torch/torch.h>

#include <mn/mn.hpp>

constexpr hsize_t kColumns = 5;  // the dataset /rows has four inputs and a target

void write_rows(const torch::Tensor& rows) {
  const hsize_t shape[] = {static_cast<hsize_t>(rows.size(0)), kColumns};
  const hid_t file = H5Fcreate("rows.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(2, shape, nullptr);
  const hid_t data = H5Dcreate2(file, "rows", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Dwrite(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, rows.const_data_ptr());
  H5Dclose(data), H5Sclose(space), H5Fclose(file);
}

torch::Tensor read_rows(hid_t data, std::int64_t first, std::int64_t rows) {
  const auto result = torch::empty({rows, static_cast<std::int64_t>(kColumns)});
  const hsize_t start[] = {static_cast<hsize_t>(first), 0}, count[] = {static_cast<hsize_t>(rows), kColumns};
  const hid_t from = H5Dget_space(data), to = H5Screate_simple(2, count, nullptr);
  H5Sselect_hyperslab(from, H5S_SELECT_SET, start, nullptr, count, nullptr);
  if (H5Dread(data, H5T_NATIVE_FLOAT, to, from, H5P_DEFAULT, result.data_ptr()) < 0) throw mn::DataError("rows.h5");
  H5Sclose(from), H5Sclose(to);
  return result;
}

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    constexpr std::int64_t kRows = 1200, kStepRows = 60;
    torch::manual_seed(1);
    if (comm->rank() == 0) {
      const auto x = torch::randn({kRows, 4});
      const auto y = x.matmul(torch::tensor({1.0F, -2.0F, 3.0F, 0.5F})).unsqueeze(1) + 0.25;
      write_rows(torch::cat({x, y}, 1));
    }
    comm->barrier();
    const hid_t file = H5Fopen("rows.h5", H5F_ACC_RDONLY, H5P_DEFAULT), rows = H5Dopen2(file, "rows", H5P_DEFAULT);
    const std::int64_t own = kStepRows / comm->size();
    auto iterator = mn::create_iterator(kRows / kStepRows, [&](std::int64_t epoch, std::int64_t step) {
      const std::int64_t block = (7 * step + epoch) % (kRows / kStepRows);  // another order each epoch
      const auto read = read_rows(rows, block * kStepRows + comm->rank() * own, own).to(comm->device());
      return mn::Batch{read.slice(1, 0, 4), read.slice(1, 4)};
    });
    torch::nn::Linear model(4, 1);
    model->to(comm->device());
    std::shared_ptr<mn::MultiNodeOptimizer> optimizer =
        mn::create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(model->parameters(), 0.05), comm);
    mn::Trainer trainer(
        comm, optimizer, iterator, model.ptr(),
        [&](const mn::Batch& batch, mn::Summary&) { return torch::mse_loss(model->forward(batch.data), batch.target); },
        {.epochs = 6, .out = "own_hdf5"});
    const int status = trainer.run();
    H5Dclose(rows), H5Fclose(file);
    if (comm->rank() == 0) std::cout << "bias " << model->bias.item<double>() << std::endl;
    return status;
  });
}
