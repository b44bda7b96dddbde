#include "worker/child.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"

namespace kiln::worker {
namespace {

constexpr size_t kWitnessBytes = 2048;
constexpr int kStartAttempts = 3;      // of a child that is killed from outside meanwhile
constexpr double kDyingSeconds = 0.5;  // a closed channel is followed by the exit this soon
constexpr double kRetireSeconds = 2.0;

// Of the character of UTF-8 that begins at `i`; 0 = none does.
size_t CharacterAt(const std::string& text, size_t i) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char lead = byte(i);
  if (lead < 0x80) return 1;
  const size_t length = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (length == 0 || i + length > text.size()) return 0;
  for (size_t k = 1; k < length; ++k) {
    if ((byte(i + k) & 0xc0) != 0x80) return 0;
  }
  const bool overlong =
      (lead == 0xe0 && byte(i + 1) < 0xa0) || (lead == 0xf0 && byte(i + 1) < 0x90);
  const bool none = (lead == 0xed && byte(i + 1) >= 0xa0) || (lead == 0xf4 && byte(i + 1) >= 0x90);
  return overlong || none ? 0 : length;
}

}  // namespace

std::string AsText(const std::string& bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size();) {
    const size_t length = CharacterAt(bytes, i);
    text += length == 0 ? "?" : bytes.substr(i, length);
    i += std::max<size_t>(length, 1);
  }
  return text;
}

Subprocess::Clock::time_point DeadlineIn(double seconds) {
  using Clock = Subprocess::Clock;
  if (seconds <= 0 || seconds > 1e8) return Clock::time_point::max();
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

std::string Tail(const std::string& text, size_t bytes) {
  if (text.size() <= bytes) return text;
  std::string tail = text.substr(text.size() - bytes);
  size_t line = tail.find('\n');
  if (line != std::string::npos && line + 1 < tail.size()) tail.erase(0, line + 1);
  return tail;
}

std::string ChildDeath::Describe() const {
  if (out_of_memory) return "it ran into its memory limit";
  if (killed_from_outside) return "it was killed from outside (SIGKILL)";
  return absl::StrCat("it ended with ", exit.ToString());
}

Child::~Child() = default;

bool Child::interrupted() {
  std::lock_guard<std::mutex> lock(mutex_);
  return interrupted_;
}

absl::Status Child::Start() {
  absl::Status status;
  for (int attempt = 0; attempt < kStartAttempts; ++attempt) {
    if (interrupted()) return absl::CancelledError("interrupted");
    if (process_ != nullptr) return absl::OkStatus();
    bool killed_from_outside = false;
    status = StartOnce(&killed_from_outside);
    if (!killed_from_outside) break;
  }
  return status;
}

absl::Status Child::StartOnce(bool* killed_from_outside) {
  SubprocessOptions options;
  options.argv = {options_.binary};
  options.argv.insert(options.argv.end(), options_.arguments.begin(), options_.arguments.end());
  options.working_directory = options_.working_directory;
  options.memory_bytes = options_.memory_bytes;
  options.file_bytes = options_.file_bytes;
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<Subprocess> process, Subprocess::Spawn(options));
  {
    std::lock_guard<std::mutex> lock(mutex_);
    process_ = std::move(process);
    if (interrupted_) process_->Interrupt();
  }
  hello_.Clear();
  absl::Status status = Receive(&hello_, DeadlineIn(options_.start_seconds));
  if (status.ok()) return status;
  ChildDeath death = Bury(status);
  *killed_from_outside = death.killed_from_outside;
  if (absl::IsCancelled(status)) return status;
  return absl::UnavailableError(
      absl::StrCat(options_.binary, " did not say hello: ", status.message(), "; ",
                   death.Describe(), death.output.empty() ? "" : "; it printed: ", death.output));
}

absl::Status Child::Send(const google::protobuf::MessageLite& message, Clock::time_point deadline) {
  KILN_CHECK(process_ != nullptr);
  return process_->Send(message.SerializeAsString(), deadline);
}

absl::Status Child::Receive(google::protobuf::MessageLite* message, Clock::time_point deadline) {
  KILN_CHECK(process_ != nullptr);
  KILN_ASSIGN_OR_RETURN(std::string frame, process_->Receive(deadline));
  if (message->ParseFromString(frame)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the child sent ", frame.size(), " bytes that are not a ",
                                          message->GetTypeName()));
}

ChildDeath Child::Bury(const absl::Status& because) {
  KILN_CHECK(process_ != nullptr);
  ChildDeath death;
  bool died_alone = false;
  if (absl::IsUnavailable(because) || absl::IsDataLoss(because)) {
    died_alone = process_->WaitExit(DeadlineIn(kDyingSeconds)).has_value();
  }
  death.exit = process_->Kill();
  death.output = AsText(Tail(process_->TakeOutput(), kWitnessBytes));
  death.killed_from_outside = died_alone && death.exit.signalled && death.exit.code == SIGKILL;
  death.out_of_memory =
      died_alone && !death.exit.signalled && death.exit.code == kOutOfMemoryExitCode;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    process_.reset();
  }
  if (options_.on_death) {
    options_.on_death(died_alone ? death.exit.ToString() : std::string(because.message()));
  }
  return death;
}

void Child::Tend() {
  if (process_ == nullptr) return;
  if (!process_->WaitExit(Clock::now()).has_value()) return;
  Bury(absl::UnavailableError("it died while it was idle"));
}

void Child::Retire() {
  if (process_ == nullptr) return;
  process_->CloseAndWait(DeadlineIn(kRetireSeconds));
  std::lock_guard<std::mutex> lock(mutex_);
  process_.reset();
}

void Child::Interrupt() {
  std::lock_guard<std::mutex> lock(mutex_);
  interrupted_ = true;
  if (process_ != nullptr) process_->Interrupt();
}

void Child::ClearInterrupt() {
  std::lock_guard<std::mutex> lock(mutex_);
  interrupted_ = false;
  if (process_ != nullptr) process_->ClearInterrupt();
}

}  // namespace kiln::worker
