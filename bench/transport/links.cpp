#include "bench/transport/links.hpp"

#include <ucp/api/ucp.h>

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <utility>

#include "src/transport/mpi/mpi_gather.hpp"
#include "src/transport/ucx/ucx_worker.hpp"

namespace sparcl::bench {
namespace {

class MpiLink final : public Link {
 public:
  explicit MpiLink(int peer) : peer_(peer) { MPI_Comm_dup(MPI_COMM_WORLD, &comm_); }
  const char* name() const override { return "MPI_Isend"; }
  void send(const Buffer& message) override {
    MPI_Isend(message.data(), static_cast<int>(message.size()), MPI_BYTE, peer_, 0, comm_,
              &requests_.emplace_back());
  }
  void receive(const Buffer& space) override {
    MPI_Irecv(space.data(), static_cast<int>(space.size()), MPI_BYTE, peer_, 0, comm_,
              &requests_.emplace_back());
  }
  void wait() override {
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    requests_.clear();
  }

 private:
  int peer_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<MPI_Request> requests_;
};

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "bench_transport: %s\n", why.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

class UcpLink final : public Link {
 public:
  explicit UcpLink(int rank) {
    auto worker = transport::UcxWorker::open();
    if (!worker.ok()) give_up(worker.status().message());
    worker_ = std::move(*worker);
    const auto all = transport::mpi_gather(MPI_COMM_WORLD, worker_->address());
    if (!all.ok()) give_up(all.status().message());
    ucp_ep_params_t params = {};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address =
        reinterpret_cast<const ucp_address_t*>((*all)[static_cast<std::size_t>(1 - rank)].data());
    if (ucp_ep_create(worker_->handle(), &params, &endpoint_) != UCS_OK)
      give_up("ucp_ep_create failed");
  }
  const char* name() const override { return "ucp_tag_send_nbx"; }
  void send(const Buffer& message) override {
    const ucp_request_param_t param = {};
    add(ucp_tag_send_nbx(endpoint_, message.data(), message.size(), 1, &param));
  }
  void receive(const Buffer& space) override {
    const ucp_request_param_t param = {};
    add(ucp_tag_recv_nbx(worker_->handle(), space.data(), space.size(), 1, ~ucp_tag_t{0}, &param));
  }
  void wait() override {
    for (void* request : requests_) {
      while (ucp_request_check_status(request) == UCS_INPROGRESS)
        ucp_worker_progress(worker_->handle());
      ucp_request_free(request);
    }
    requests_.clear();
  }

 private:
  void add(ucs_status_ptr_t request) {
    if (UCS_PTR_IS_ERR(request)) give_up(ucs_status_string(UCS_PTR_STATUS(request)));
    if (UCS_PTR_IS_PTR(request)) requests_.push_back(request);
  }
  std::shared_ptr<transport::UcxWorker> worker_;
  ucp_ep_h endpoint_ = nullptr;
  std::vector<void*> requests_;
};

class TransportLink final : public Link {
 public:
  TransportLink(std::string name, std::unique_ptr<transport::Transport> transport, int peer)
      : name_(std::move(name)), transport_(std::move(transport)), peer_(peer) {}
  const char* name() const override { return name_.c_str(); }
  void send(const Buffer& message) override {
    open_.push_back(transport_->send(peer_, {call_, 1}, message));
  }
  void receive(const Buffer& space) override {
    open_.push_back(transport_->receive(peer_, {call_, 1}, space));
  }
  void wait() override {
    std::uint64_t turns = 0;
    for (const transport::OperationRef& each : open_) {
      while (!each->done) {
        done_.clear();
        if (const Status status = transport_->progress(done_); !status.ok())
          give_up(status.message());
        turns = done_.empty() ? turns + 1 : 0;
        if (turns > 0) transport_->idle(turns, std::numeric_limits<double>::infinity());
      }
      if (!each->status.ok()) give_up(each->status.message());
    }
    open_.clear();
  }

 private:
  std::string name_;
  std::unique_ptr<transport::Transport> transport_;
  int peer_;
  std::uint32_t call_ = 1;
  std::vector<transport::OperationRef> open_;
  std::vector<transport::OperationRef> done_;
};

}  // namespace

std::unique_ptr<Link> make_mpi_link(int peer) { return std::make_unique<MpiLink>(peer); }
std::unique_ptr<Link> make_ucp_link(int rank) { return std::make_unique<UcpLink>(rank); }
std::unique_ptr<Link> make_transport_link(std::string name,
                                          std::unique_ptr<transport::Transport> transport,
                                          int peer) {
  return std::make_unique<TransportLink>(std::move(name), std::move(transport), peer);
}

}  // namespace sparcl::bench
