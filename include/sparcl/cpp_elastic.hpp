#pragma once
// Elastic aggregation in C++: see elastic.h. Part of sparcl.hpp.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "sparcl/cpp_basics.hpp"
#include "sparcl/cpp_objects.hpp"
#include "sparcl/sparcl.h"

namespace sparcl {

// An aggregator that serves workers until all copies of it have ended. The tensors must outlive
// them.
class AggregatorService {
 public:
  AggregatorService(const Aggregator& aggregator, const State& state,
                    const sparclServeOptions_t& options = SPARCL_SERVE_OPTIONS_INITIALIZER)
      : state_(state.shared()), aggregator_(aggregator.shared()) {
    check(sparclAggregatorServe(get(), state_.get(), &options));
  }

  std::string address() const { return addresses().workers; }  // for workers
  std::string results() const { return addresses().results; }  // for replicas

  // The round that has ended; nothing if none has in time, and reason() then says why.
  std::optional<sparclRoundReport_t> next(double seconds) {
    sparclRoundReport_t report = SPARCL_ROUND_REPORT_INITIALIZER;
    const sparclResult_t result = sparclAggregatorNext(get(), seconds, &report);
    reason_ = result == sparclTimeout ? sparclGetLastError(nullptr) : "";
    if (result == sparclTimeout) return {};
    check(result);
    return report;
  }
  const std::string& reason() const { return reason_; }
  sparclAggregator_t get() const { return aggregator_.get(); }

 private:
  struct Addresses {
    std::string workers, results;
  };
  Addresses addresses() const {
    char workers[256], results[256];
    check(sparclAggregatorAddress(get(), workers, results, sizeof workers));
    return {workers, results};
  }

  std::shared_ptr<sparclState> state_;  // the aggregator, which uses it, ends first
  std::shared_ptr<sparclAggregator> aggregator_;
  std::string reason_;
};

// A worker: the state's tensors start from a version, are trained, and contribute() sends what has
// changed. It keeps the state; the tensors must outlive it.
class Worker {
 public:
  struct Options {
    std::string model_id = {};
    std::uint64_t keep = 0;    // elements of a contribution at most; 0: all
    std::uint64_t number = 0;  // of this worker, from 1 on, in all runs; 0: the aggregator chooses
    sparclWire_t wire = sparclWireSame;
    std::string secret_path = {};        // of role replicate; empty: SPARCL_SECRET, else none
    std::string certificates_path = {};  // folder, role replicate; empty: SPARCL_CERTIFICATES
    std::string key_path = {};           // signs contributions; empty: none
    std::string trust_path = {};         // keys, one of which signs versions; empty: see elastic.h
    sparclToggle_t relay = sparclDefault;  // pass versions on to other workers
  };
  Worker(const State& state, const std::string& address) : Worker(state, address, Options()) {}
  Worker(const State& state, const std::string& address, const Options& options) {
    sparclWorkerOptions_t given = SPARCL_WORKER_OPTIONS_INITIALIZER;
    given.model_id = options.model_id.c_str();
    given.keep = options.keep;
    given.number = options.number;
    given.wire = options.wire;
    given.relay = options.relay;
    const auto path = [](const std::string& text) { return text.empty() ? nullptr : text.c_str(); };
    given.secret_path = path(options.secret_path);
    given.certificates_path = path(options.certificates_path);
    given.key_path = path(options.key_path);
    given.trust_path = path(options.trust_path);
    sparclWorker_t handle = nullptr;
    check(sparclWorkerCreate(&handle, state.get(), address.c_str(), &given));
    handle_ = Handle(handle, {{state.shared()}});
  }

  // A newer version, which the tensors now hold; nothing if none has come in time, and reason()
  // then says why.
  std::optional<std::uint64_t> next(double seconds) {
    std::uint64_t version = 0;
    const sparclResult_t result = sparclWorkerNext(get(), seconds, &version);
    reason_ = result == sparclTimeout ? sparclGetLastError(nullptr) : "";
    if (result == sparclTimeout) return {};
    check(result);
    return version;
  }
  const std::string& reason() const { return reason_; }
  void contribute(double weight) { check(sparclWorkerContribute(get(), weight)); }
  // False: some contributions are in no committed round in time; reason() says how many.
  bool flush(double seconds) {
    const sparclResult_t result = sparclWorkerFlush(get(), seconds);
    reason_ = result == sparclTimeout ? sparclGetLastError(nullptr) : "";
    if (result != sparclTimeout) check(result);
    return result == sparclSuccess;
  }
  sparclWorkerStats_t stats() const {
    sparclWorkerStats_t stats = SPARCL_WORKER_STATS_INITIALIZER;
    check(sparclWorkerStats(get(), &stats));
    return stats;
  }
  sparclWorker_t get() const { return handle_.get(); }

 private:
  using Handle =
      std::unique_ptr<sparclWorker,
                      detail::DestroyBefore<sparclWorkerDestroy, std::shared_ptr<sparclState>>>;
  std::string reason_;
  Handle handle_;
};

}  // namespace sparcl
