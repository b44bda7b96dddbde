// What the NVIDIA driver writes into the kernel's log when a GPU fails (Xid). Readable for root,
// mostly.
#ifndef KILN_WORKER_PROFILE_KERNEL_LOG_H_
#define KILN_WORKER_PROFILE_KERNEL_LOG_H_

#include <memory>
#include <string>
#include <vector>

namespace kiln::worker {

class KernelLog {
 public:
  // From its present end on; null where it cannot be read.
  static std::unique_ptr<KernelLog> Open(const std::string& path = "/dev/kmsg");
  ~KernelLog();
  KernelLog(const KernelLog&) = delete;
  KernelLog& operator=(const KernelLog&) = delete;

  // Numbers of the Xid events of the GPU at `bus_id` of PCI since the last call.
  std::vector<int> TakeXids(const std::string& bus_id);

 private:
  explicit KernelLog(int fd) : fd_(fd) {}
  const int fd_;
  std::string rest_;  // of a line that has not ended
};

// "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus." at "0000:3B:00.0" is 79;
// 0 for a line that is none of this GPU. Exposed for tests.
int XidOfLine(const std::string& line, const std::string& bus_id);

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_KERNEL_LOG_H_
