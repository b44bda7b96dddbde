// Calls the artifact from two threads, each on a stream of its own.
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "common.h"
#include "matmul.h"

namespace {

struct Free {
  void operator()(void* p) const { cudaFree(p); }
};

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t n) : size_(n) {
    void* p = nullptr;
    CUDA(cudaMalloc(&p, n * sizeof(T)));
    memory_.reset(p);
  }
  DeviceArray(const std::vector<T>& host, cudaStream_t stream) : DeviceArray(host.size()) {
    CUDA(cudaMemcpyAsync(get(), host.data(), size_ * sizeof(T), cudaMemcpyHostToDevice, stream));
  }
  void* get() const { return memory_.get(); }
  std::vector<T> Fetch(cudaStream_t stream) const {
    std::vector<T> host(size_);
    CUDA(cudaMemcpyAsync(host.data(), get(), size_ * sizeof(T), cudaMemcpyDeviceToHost, stream));
    CUDA(cudaStreamSynchronize(stream));
    return host;
  }

 private:
  size_t size_;
  std::unique_ptr<void, Free> memory_;
};

std::vector<uint16_t> Matrix(int rows, int seed) {
  std::vector<uint16_t> out;
  for (int i = 0; i < rows * K; ++i) {
    const float value = element(i / K, i % K, seed);
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    out.push_back(static_cast<uint16_t>(bits >> 16));
  }
  return out;
}

int Run() {
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  const DeviceArray<uint16_t> a(Matrix(M, 1), stream), b(Matrix(N, 2), stream);
  const DeviceArray<float> c(M * N);
  kiln_launch launch = {};
  launch.size = sizeof launch;
  launch.version = 1;
  launch.stream = stream;
  if (const int status = kiln_matmul(&launch, a.get(), b.get(), c.get()); status != KILN_OK) {
    std::fprintf(stderr, "kiln_matmul: error %d\n", status);
    return M * N;
  }
  return wrong(c.Fetch(stream).data());
}

}  // namespace

int main() {
  int first = 0;
  std::thread other([&] { first = Run(); });
  const int second = Run();
  other.join();
  std::printf("call.cc: %d and %d of %d elements wrong\n", first, second, M * N);
  return first + second != 0;
}
