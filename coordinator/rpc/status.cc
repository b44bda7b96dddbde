#include "coordinator/rpc/status.h"

#include <grpcpp/support/status.h>

#include "absl/strings/str_cat.h"

namespace kiln::rpc {
namespace {

constexpr size_t kMaxEncodedMessage = 6000;  // gRPC's limit for all trailers is 8192
constexpr absl::string_view kCut = "\n... (cut) ...\n";

size_t EncodedSize(char c) { return c >= 0x20 && c < 0x7f && c != '%' ? 1 : 3; }

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

}  // namespace

std::string CutMessage(absl::string_view message, size_t limit) {
  size_t encoded = 0;
  for (const char c : message) encoded += EncodedSize(c);
  if (encoded <= limit) return std::string(message);
  size_t head = 0, tail = message.size(), used = 3 * kCut.size();
  while (head < tail && used + EncodedSize(message[head]) <= limit * 3 / 4) {
    used += EncodedSize(message[head++]);
  }
  while (tail > head && used + EncodedSize(message[tail - 1]) <= limit) {
    used += EncodedSize(message[--tail]);
  }
  while (head > 0 && IsContinuation(message[head])) --head;
  while (tail < message.size() && IsContinuation(message[tail])) ++tail;
  return absl::StrCat(message.substr(0, head), kCut, message.substr(tail));
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      CutMessage(status.message(), kMaxEncodedMessage));
}

}  // namespace kiln::rpc
