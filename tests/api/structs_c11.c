/* What a C11 compiler sees of the public structs and enums. */
#include <stddef.h>

#include "sparcl/sparcl.h"

#define ENDS_WITH(type, last) \
  _Static_assert(offsetof(type, last) + sizeof(((type*)0)->last) == sizeof(type), #type)
ENDS_WITH(sparclConfig_t, heartbeat);
ENDS_WITH(sparclReport_t, wire_datatype);
ENDS_WITH(sparclNcclOptions_t, comm);
ENDS_WITH(sparclUpdateOptions_t, verify);
ENDS_WITH(sparclBroadcastOptions_t, commit);
ENDS_WITH(sparclMaskedOptions_t, determinism);
ENDS_WITH(sparclTopKOptions_t, tensor_count);
ENDS_WITH(sparclSparseOptions_t, wire);
ENDS_WITH(sparclFeedbackStats_t, threshold_drift);
ENDS_WITH(sparclAggregatorOptions_t, wire);
ENDS_WITH(sparclAggregatorStats_t, own_clipped);
ENDS_WITH(sparclAggregateOptions_t, rank_count);
ENDS_WITH(sparclServeOptions_t, insecure);
ENDS_WITH(sparclRoundReport_t, seconds);
ENDS_WITH(sparclWorkerOptions_t, relay);
ENDS_WITH(sparclWorkerStats_t, residual_l2);
ENDS_WITH(sparclPublisherOptions_t, store);
ENDS_WITH(sparclStoreOptions_t, chain);
ENDS_WITH(sparclStoreKeep_t, bytes);
ENDS_WITH(sparclStorePruned_t, waiting);
ENDS_WITH(sparclSubscriberOptions_t, store_patience_ms);

/* Enums are as wide as int: their ...ForceInt members see to it. */
#define IS_INT(type) _Static_assert(sizeof(type) == sizeof(int), #type)
IS_INT(sparclResult_t);
IS_INT(sparclDataType_t);
IS_INT(sparclRedOp_t);
IS_INT(sparclToggle_t);
IS_INT(sparclDeterminism_t);
IS_INT(sparclVerify_t);
IS_INT(sparclCommit_t);
IS_INT(sparclWire_t);
IS_INT(sparclStoreChain_t);
IS_INT(sparclSelect_t);
IS_INT(sparclValues_t);
IS_INT(sparclRounding_t);
IS_INT(sparclOutside_t);
IS_INT(sparclTopKMode_t);
IS_INT(sparclResidual_t);
IS_INT(sparclMean_t);
IS_INT(sparclOuter_t);
IS_INT(sparclNonFinite_t);

/* The initialisers are constants, and the version is one for the preprocessor. */
const sparclConfig_t structs_c11_config = SPARCL_CONFIG_INITIALIZER;
const sparclReport_t structs_c11_report = SPARCL_REPORT_INITIALIZER;
const sparclNcclOptions_t structs_c11_nccl = SPARCL_NCCL_OPTIONS_INITIALIZER;
const sparclUpdateOptions_t structs_c11_update = SPARCL_UPDATE_OPTIONS_INITIALIZER;
const sparclBroadcastOptions_t structs_c11_broadcast = SPARCL_BROADCAST_OPTIONS_INITIALIZER;
const sparclMaskedOptions_t structs_c11_masked = SPARCL_MASKED_OPTIONS_INITIALIZER;
const sparclTopKOptions_t structs_c11_top_k = SPARCL_TOPK_OPTIONS_INITIALIZER;
const sparclSparseOptions_t structs_c11_sparse = SPARCL_SPARSE_OPTIONS_INITIALIZER;
const sparclFeedbackStats_t structs_c11_stats = SPARCL_FEEDBACK_STATS_INITIALIZER;
const sparclAggregatorOptions_t structs_c11_aggregator = SPARCL_AGGREGATOR_OPTIONS_INITIALIZER;
const sparclAggregatorStats_t structs_c11_rounds = SPARCL_AGGREGATOR_STATS_INITIALIZER;
const sparclAggregateOptions_t structs_c11_aggregate = SPARCL_AGGREGATE_OPTIONS_INITIALIZER;
const sparclStoreOptions_t structs_c11_store = SPARCL_STORE_OPTIONS_INITIALIZER;
const sparclStoreKeep_t structs_c11_store_keep = SPARCL_STORE_KEEP_INITIALIZER;
const sparclStorePruned_t structs_c11_store_pruned = SPARCL_STORE_PRUNED_INITIALIZER;
const sparclServeOptions_t structs_c11_serve = SPARCL_SERVE_OPTIONS_INITIALIZER;
const sparclRoundReport_t structs_c11_round = SPARCL_ROUND_REPORT_INITIALIZER;
const sparclWorkerOptions_t structs_c11_worker = SPARCL_WORKER_OPTIONS_INITIALIZER;
const sparclWorkerStats_t structs_c11_worker_stats = SPARCL_WORKER_STATS_INITIALIZER;
const sparclPublisherOptions_t structs_c11_publisher = SPARCL_PUBLISHER_OPTIONS_INITIALIZER;
const sparclSubscriberOptions_t structs_c11_subscriber = SPARCL_SUBSCRIBER_OPTIONS_INITIALIZER;

#if !SPARCL_VERSION_AT_LEAST(0, 1, 0) || SPARCL_VERSION_AT_LEAST(1000, 0, 0) || \
    SPARCL_VERSION_AT_LEAST(SPARCL_VERSION_MAJOR, SPARCL_VERSION_MINOR, SPARCL_VERSION_PATCH + 1)
#error "SPARCL_VERSION_AT_LEAST compares wrongly"
#endif
_Static_assert(SPARCL_VERSION ==
                   SPARCL_VERSION_MAJOR * 10000 + SPARCL_VERSION_MINOR * 100 + SPARCL_VERSION_PATCH,
               "SPARCL_VERSION");
