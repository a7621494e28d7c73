#pragma once
// Dense collectives over NCCL.

#include <cstdint>
#include <functional>
#include <memory>

#include "src/base/status.hpp"
#include "src/transport/collective_engine.hpp"
#include "src/transport/nccl/nccl_library.hpp"

namespace sparcl::transport {

class NcclEngine final : public CollectiveEngine {
 public:
  // Collective over the ranks that have the same id, each with this thread's GPU, and no two with
  // the same GPU. timeout_s limits this call, and NCCL's work on the host in later calls. on_wait:
  // called again and again meanwhile; its error ends the wait.
  static Result<std::unique_ptr<NcclEngine>> create(const NcclLibrary& nccl, const NcclId& id,
                                                    int rank, int size, double timeout_s,
                                                    const std::function<Status()>& on_wait);
  // Wraps an ncclComm_t of these ranks and this GPU, which stays the caller's.
  static Result<std::unique_ptr<NcclEngine>> wrap(const NcclLibrary& nccl, NcclLibrary::Comm comm,
                                                  int rank, int size, int gpu, double timeout_s);
  // Waits at most some seconds for peers that do not end their engines.
  ~NcclEngine() override;

  const char* name() const override { return "nccl"; }
  bool reduces(DataType type) const override;
  Status all_reduce(const void* send, void* receive, std::uint64_t count, DataType type,
                    EngineOp op, void* stream) override;
  Status broadcast(void* array, std::uint64_t bytes, int root, void* stream) override;
  Status all_gather(const void* send, void* receive, std::uint64_t bytes, void* stream) override;
  Status all_to_all(const void* send, std::uint64_t bytes, std::uint64_t piece_bytes, void* receive,
                    void* stream) override;
  void set_watch(std::function<Status()> watch) override { watch_ = std::move(watch); }
  Status health() override;
  bool abort() override;

 private:
  NcclEngine(const NcclLibrary& nccl, NcclLibrary::Comm comm, bool is_own, int rank, int size,
             double timeout_s)
      : nccl_(nccl),
        comm_(comm),
        is_own_(is_own),
        rank_(rank),
        size_(size),
        timeout_s_(timeout_s) {}

  Status check_comm() const;
  // Inside a group that has begun.
  Status send_and_receive(const void* send, std::uint64_t bytes, std::uint64_t piece_bytes,
                          void* receive, void* stream) const;
  // A call's result, once it has one.
  Status settled(NcclLibrary::Result_t result, const char* what, double timeout_s,
                 const std::function<Status()>& on_wait);

  const NcclLibrary& nccl_;
  NcclLibrary::Comm comm_;  // nullptr: aborted
  bool is_own_;
  int rank_, size_;
  double timeout_s_;
  std::function<Status()> watch_;
};

}  // namespace sparcl::transport
