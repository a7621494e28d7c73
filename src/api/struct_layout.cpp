// The C structs that grow: their `size` tells which fields a program has, so that no bytes stand
// between fields or after the last one. Each new field is added here.
#include <cstddef>

#include "sparcl/sparcl.h"

namespace sparcl::api::struct_layout {

template <class Struct, class... Fields>
constexpr bool has_no_padding(Fields Struct::*... /* all of them */) {
  return (sizeof(Fields) + ...) == sizeof(Struct);
}

using Config = sparclConfig_t;
static_assert(has_no_padding(&Config::size, &Config::transport, &Config::timeout_s,
                             &Config::liveness_s, &Config::verify, &Config::determinism,
                             &Config::threads, &Config::heartbeat));

using Report = sparclReport_t;
static_assert(has_no_padding(&Report::size, &Report::algorithm, &Report::nnz_in, &Report::nnz_out,
                             &Report::bytes_sent, &Report::bytes_received, &Report::bytes_dense,
                             &Report::bytes_bound, &Report::seconds, &Report::seconds_predicted,
                             &Report::seconds_select, &Report::seconds_exchange,
                             &Report::dropped_l2, &Report::applied, &Report::wire_datatype));

using Nccl = sparclNcclOptions_t;
static_assert(has_no_padding(&Nccl::size, &Nccl::unique_id, &Nccl::comm));

using Update = sparclUpdateOptions_t;
static_assert(has_no_padding(&Update::size, &Update::algorithm, &Update::select, &Update::grid,
                             &Update::threshold, &Update::count, &Update::bytes, &Update::seed,
                             &Update::values, &Update::rounding, &Update::adopt, &Update::verify));

using Broadcast = sparclBroadcastOptions_t;
static_assert(has_no_padding(&Broadcast::size, &Broadcast::algorithm, &Broadcast::verify,
                             &Broadcast::commit));

using Masked = sparclMaskedOptions_t;
static_assert(has_no_padding(&Masked::size, &Masked::algorithm, &Masked::outside,
                             &Masked::determinism));

using TopK = sparclTopKOptions_t;
static_assert(has_no_padding(&TopK::size, &TopK::algorithm, &TopK::mode, &TopK::wire,
                             &TopK::determinism, &TopK::residual, &TopK::reuse_threshold,
                             &TopK::device_kernels, &TopK::tensors, &TopK::tensor_count));

using Sparse = sparclSparseOptions_t;
static_assert(has_no_padding(&Sparse::size, &Sparse::algorithm, &Sparse::determinism,
                             &Sparse::wire));

using Stats = sparclFeedbackStats_t;
static_assert(has_no_padding(&Stats::size, &Stats::calls, &Stats::selected, &Stats::sent,
                             &Stats::passes, &Stats::sent_mass, &Stats::dropped_l2,
                             &Stats::residual_l2, &Stats::threshold, &Stats::threshold_drift));

using Aggregator = sparclAggregatorOptions_t;
static_assert(has_no_padding(&Aggregator::size, &Aggregator::mean, &Aggregator::outer,
                             &Aggregator::learning_rate, &Aggregator::momentum, &Aggregator::beta2,
                             &Aggregator::epsilon, &Aggregator::activation, &Aggregator::clip_l2,
                             &Aggregator::clip_median, &Aggregator::keep, &Aggregator::delay,
                             &Aggregator::non_finite, &Aggregator::wire));

using Serve = sparclServeOptions_t;
static_assert(has_no_padding(&Serve::size, &Serve::listen, &Serve::publish, &Serve::model_id,
                             &Serve::folder, &Serve::parent, &Serve::key_path,
                             &Serve::contributors_path, &Serve::secret_path,
                             &Serve::certificates_path, &Serve::deadline_s, &Serve::grace_min_s,
                             &Serve::grace_max_s, &Serve::late_factor, &Serve::max_rounds_late,
                             &Serve::quorum, &Serve::round, &Serve::insecure));

using RoundReport = sparclRoundReport_t;
static_assert(has_no_padding(&RoundReport::size, &RoundReport::version, &RoundReport::listed,
                             &RoundReport::late, &RoundReport::missing, &RoundReport::changed,
                             &RoundReport::bytes, &RoundReport::weight, &RoundReport::seconds));

using Worker = sparclWorkerOptions_t;
static_assert(has_no_padding(&Worker::size, &Worker::model_id, &Worker::secret_path,
                             &Worker::certificates_path, &Worker::key_path, &Worker::trust_path,
                             &Worker::keep, &Worker::number, &Worker::wire, &Worker::relay));

using WorkerStats = sparclWorkerStats_t;
static_assert(has_no_padding(&WorkerStats::size, &WorkerStats::version, &WorkerStats::contributed,
                             &WorkerStats::committed, &WorkerStats::late, &WorkerStats::refused,
                             &WorkerStats::deferred, &WorkerStats::entries, &WorkerStats::bytes,
                             &WorkerStats::connections, &WorkerStats::residual_l2));

using Rounds = sparclAggregatorStats_t;
static_assert(has_no_padding(&Rounds::size, &Rounds::rounds, &Rounds::listed, &Rounds::refused,
                             &Rounds::total_weight, &Rounds::residual_l2, &Rounds::own_refused,
                             &Rounds::own_clipped));

using Aggregate = sparclAggregateOptions_t;
static_assert(has_no_padding(&Aggregate::size, &Aggregate::aggregator, &Aggregate::ranks,
                             &Aggregate::rank_count));

using Store = sparclStoreOptions_t;
static_assert(has_no_padding(&Store::size, &Store::anchor_every, &Store::keep_versions,
                             &Store::lease_seconds, &Store::single_writer, &Store::model_id,
                             &Store::key_path, &Store::trust_path, &Store::trust_threshold,
                             &Store::chain));

using StoreKeep = sparclStoreKeep_t;
static_assert(has_no_padding(&StoreKeep::size, &StoreKeep::versions, &StoreKeep::seconds,
                             &StoreKeep::bytes));

using Pruned = sparclStorePruned_t;
static_assert(has_no_padding(&Pruned::size, &Pruned::versions, &Pruned::objects, &Pruned::bytes,
                             &Pruned::waiting));

using Publisher = sparclPublisherOptions_t;
static_assert(has_no_padding(&Publisher::size, &Publisher::listen, &Publisher::model_id,
                             &Publisher::key_path, &Publisher::state_path, &Publisher::queue,
                             &Publisher::peer_bytes, &Publisher::secret_path, &Publisher::insecure,
                             &Publisher::shared_memory, &Publisher::witness_path,
                             &Publisher::certificates_path, &Publisher::store));

using Subscriber = sparclSubscriberOptions_t;
static_assert(has_no_padding(&Subscriber::size, &Subscriber::model_id, &Subscriber::trust_path,
                             &Subscriber::record_path, &Subscriber::on_swap, &Subscriber::arg,
                             &Subscriber::double_buffer, &Subscriber::relay,
                             &Subscriber::secret_path, &Subscriber::trust_threshold,
                             &Subscriber::max_age_s, &Subscriber::certificates_path,
                             &Subscriber::store, &Subscriber::from_store,
                             &Subscriber::store_patience_ms));

}  // namespace sparcl::api::struct_layout
