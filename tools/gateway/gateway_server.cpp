#include "tools/gateway/gateway_server.hpp"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <sparcl_gateway.grpc.pb.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "src/base/repeated_messages.hpp"
#include "src/net/host_port.hpp"
#include "src/net/socket.hpp"
#include "tools/gateway/peer_access.hpp"

namespace sparcl::gateway {
namespace {

constexpr int kMaxClientMessage = 64 << 10;  // bytes
constexpr int kKeepaliveMs = 10'000, kHandshakeMs = 10'000, kIdleMs = 60'000;
constexpr int kStreamsOfConnection = 16;
constexpr double kTickSeconds = 0.1;
constexpr std::chrono::milliseconds kShutdownPatience{500};

using Base = grpc::ServerBidiReactor<v1::ClientMessage, v1::ServerMessage>;

}  // namespace

// The streams, and what they share.
class StreamHub {
 public:
  StreamHub(const ServerOptions& given, VersionShelf& given_shelf,
            std::function<void(const std::string&)> given_tell)
      : options(given), shelf(given_shelf), tell_(std::move(given_tell)) {}

  class Stream;
  Base* open(grpc::CallbackServerContext& context);
  void wake() {
    const std::lock_guard lock(mutex_);
    is_woken_ = true;
    woken_.notify_one();
  }
  void run_ticks();
  void end_all();
  void close(Stream* stream);
  // Of one peer ever more rarely: a hostile one must not fill the log.
  void tell(const std::string& peer, const std::string& text);

  const ServerOptions options;
  VersionShelf& shelf;
  ServerCounts counts;

 private:
  bool has_room();

  std::function<void(const std::string&)> tell_;
  std::mutex telling_;
  RepeatedMessages told_;  // guarded by telling_

  std::mutex mutex_;  // guards all below; taken before a stream's
  std::condition_variable woken_;
  std::list<Stream*> streams_;
  bool is_woken_ = false;
  bool is_ending_ = false;
};

// gRPC calls it from its own threads. It destroys itself when gRPC has let go of it.
class StreamHub::Stream final : public Base {
 public:
  Stream(StreamHub& hub, grpc::CallbackServerContext& context)
      : hub_(hub),
        context_(context),
        peer_(context.peer()),
        session_(hub.shelf, hub.options.model_id, hub.options.session, net::monotonic_seconds()) {}

  void begin(const Status& access, bool has_room) {
    const std::lock_guard lock(mutex_);
    if (!access.ok())
      session_.end(EndCode::kPermissionDenied, access.message());
    else if (!has_room)
      session_.end(EndCode::kResourceExhausted,
                   fmt::format("this gateway serves {} streams at most: try again later, or start "
                               "it with a larger --max-sessions",
                               hub_.options.max_sessions));
    else
      StartRead(&read_);
    go_on();
  }

  void OnReadDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    if (!ok) {
      is_gone_ = true;
    } else {
      session_.on_message(read_);
      count();
      if (!session_.ending()) StartRead(&read_);
    }
    go_on();
  }
  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    is_writing_ = false;
    if (!ok) is_gone_ = true;
    count();
    go_on();
  }
  void OnCancel() override {
    const std::lock_guard lock(mutex_);
    is_gone_ = true;
    go_on();
  }
  void OnDone() override { hub_.close(this); }

  void tick(double now) {
    const std::lock_guard lock(mutex_);
    session_.on_time(now);
    if (is_writing_ && !is_cut_ && now - write_began_ > hub_.options.send_s) {
      session_.end(EndCode::kAborted,
                   fmt::format("too slow: it took no message for {:g} s", hub_.options.send_s));
    }
    go_on();
  }
  void end(EndCode code, const std::string& text) {
    const std::lock_guard lock(mutex_);
    session_.end(code, text);
    go_on();
  }

 private:
  friend class StreamHub;
  ~Stream() override = default;

  // Sends what is next, or ends the call, once no message is on its way.
  void go_on() {
    if (is_finished_) return;
    if (!is_gone_ && !is_writing_) write_next();
    if (session_.ending()) tell_of_end();
    if (!is_gone_ && !session_.ending()) return;
    if (is_writing_) {
      if (session_.ending() && !std::exchange(is_cut_, true)) context_.TryCancel();
      return;
    }
    finish(is_gone_ ? grpc::Status::OK
                    : grpc::Status(static_cast<grpc::StatusCode>(session_.ending()->code),
                                   session_.ending()->text));
  }

  void write_next() {
    std::optional<v1::ServerMessage> next = session_.next_message(net::monotonic_seconds());
    if (!next) return;
    write_ = std::move(*next);
    is_writing_ = true;
    write_began_ = net::monotonic_seconds();
    StartWrite(&write_);
  }

  void finish(const grpc::Status& status) {
    session_.end(EndCode::kAborted, "");  // gives a shipment back
    count();
    is_finished_ = true;
    Finish(status);
  }

  void tell_of_end() {
    const EndCode code = session_.ending()->code;
    if (is_told_ || code == EndCode::kUnavailable) return;
    is_told_ = true;
    const bool is_slow = code == EndCode::kAborted || code == EndCode::kDeadlineExceeded;
    ++(is_slow ? hub_.counts.dropped : hub_.counts.refused);
    const std::string name = session_.name().empty() ? "" : session_.name() + ", ";
    hub_.tell(peer_, fmt::format("client {}{} is {}: {}", name, peer_,
                                 is_slow ? "dropped" : "refused", session_.ending()->text));
  }

  void count() {
    const GatewaySession::Counts& now = session_.counts();
    hub_.counts.anchors += now.anchors - counted_.anchors;
    hub_.counts.steps += now.steps - counted_.steps;
    hub_.counts.nacks += now.nacks - counted_.nacks;
    hub_.counts.bytes += now.bytes - counted_.bytes;
    counted_ = now;
  }

  StreamHub& hub_;
  grpc::CallbackServerContext& context_;
  const std::string peer_;

  std::mutex mutex_;  // guards all below
  GatewaySession session_;
  GatewaySession::Counts counted_;
  v1::ClientMessage read_;
  v1::ServerMessage write_;
  double write_began_ = 0;
  bool is_writing_ = false;   // write_ belongs to gRPC
  bool is_gone_ = false;      // the client
  bool is_cut_ = false;       // the call was cancelled
  bool is_told_ = false;      // why it ended
  bool is_finished_ = false;  // nothing may be started
};

Base* StreamHub::open(grpc::CallbackServerContext& context) {
  auto* const stream = new Stream(*this, context);  // its OnDone() deletes it
  bool has_room = false;
  {
    const std::lock_guard lock(mutex_);
    has_room = !is_ending_ && streams_.size() < options.max_sessions;
    streams_.push_back(stream);
    counts.sessions = streams_.size();
    ++counts.opened;
  }
  stream->begin(check_role(context), has_room);
  return stream;
}

void StreamHub::close(Stream* stream) {
  {
    const std::lock_guard lock(mutex_);
    streams_.remove(stream);
    counts.sessions = streams_.size();
  }
  { const std::lock_guard last(stream->mutex_); }  // the call that began the end has returned
  delete stream;
}

void StreamHub::run_ticks() {
  std::unique_lock lock(mutex_);
  while (!is_ending_) {
    woken_.wait_for(lock, std::chrono::duration<double>(kTickSeconds),
                    [this] { return is_woken_ || is_ending_; });
    is_woken_ = false;
    const double now = net::monotonic_seconds();
    for (Stream* const stream : streams_) stream->tick(now);
  }
}

void StreamHub::end_all() {
  const std::lock_guard lock(mutex_);
  is_ending_ = true;
  woken_.notify_one();
  for (Stream* const stream : streams_)
    stream->end(EndCode::kUnavailable, "the gateway ends: connect again later");
}

void StreamHub::tell(const std::string& peer, const std::string& text) {
  const std::string host = peer.substr(0, peer.rfind(':'));
  std::uint64_t times = 0;
  {
    const std::lock_guard lock(telling_);
    times = told_.count(host, net::monotonic_seconds());
  }
  if (times > 0) tell_(text + times_text(times));
}

namespace {

class Service final : public v1::WeightGateway::CallbackService {
 public:
  explicit Service(StreamHub& hub) : hub_(hub) {}
  Base* Follow(grpc::CallbackServerContext* context) override { return hub_.open(*context); }

 private:
  StreamHub& hub_;
};

// As gRPC writes it. Without a host: all interfaces.
std::string grpc_address(const net::HostPort& where) {
  if (where.host.empty()) return fmt::format("[::]:{}", where.port);
  const bool is_six = where.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", is_six ? "[" : "", where.host, is_six ? "]" : "", where.port);
}

void set_limits(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxClientMessage);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // two gateways at one port: an error
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsOfConnection);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMs);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kKeepaliveMs / 2);
}

}  // namespace

struct GatewayServer::Impl {
  Impl(const ServerOptions& options, VersionShelf& shelf,
       std::function<void(const std::string&)> tell)
      : hub(options, shelf, std::move(tell)), service(hub) {}

  StreamHub hub;
  Service service;
  std::unique_ptr<grpc::Server> server;
  std::thread ticks;
};

GatewayServer::GatewayServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<GatewayServer>> GatewayServer::start(
    const ServerOptions& options, VersionShelf& shelf,
    std::function<void(const std::string&)> tell) {
  SPARCL_ASSIGN_OR_RETURN(net::HostPort where, net::parse_host_port(options.listen));
  SPARCL_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ServerCredentials> credentials,
                          server_credentials(options.certificates_path));
  auto impl = std::make_unique<Impl>(options, shelf, std::move(tell));
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(grpc_address(where), credentials, &port);
  builder.RegisterService(&impl->service);
  set_limits(builder);
  shelf.on_news([hub = &impl->hub] { hub->wake(); });
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr || port == 0)
    return Status(Code::kSystemError,
                  fmt::format("no port could be opened at {}: is it in use, or no address of this "
                              "machine? Give another --listen HOST:PORT",
                              options.listen));
  impl->ticks = std::thread([hub = &impl->hub] { hub->run_ticks(); });
  std::unique_ptr<GatewayServer> made(new GatewayServer(std::move(impl)));
  where.port = static_cast<std::uint16_t>(port);
  made->address_ = grpc_address(where);
  return made;
}

GatewayServer::~GatewayServer() {
  impl_->hub.shelf.on_news({});
  impl_->hub.end_all();
  impl_->ticks.join();
  impl_->server->Shutdown(std::chrono::system_clock::now() + kShutdownPatience);
  impl_->server->Wait();
}

const ServerCounts& GatewayServer::counts() const { return impl_->hub.counts; }

}  // namespace sparcl::gateway
