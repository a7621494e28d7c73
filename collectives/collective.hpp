#pragma once
// The names of src/comm that collectives use.

#include "src/comm/agreed_call.hpp"
#include "src/comm/agreement/agreement.hpp"
#include "src/comm/comm_context.hpp"
#include "src/comm/cost_model.hpp"
#include "src/comm/engine/collective_descriptor.hpp"
#include "src/comm/engine/engine.hpp"
#include "src/comm/sum_shape.hpp"

namespace sparcl::collectives {

using comm::agree;
using comm::agreed_call;
using comm::Ahead;
using comm::CallBody;
using comm::CallDifference;
using comm::CallFingerprint;
using comm::CallKind;
using comm::CallPair;
using comm::CallReport;
using comm::CallTerms;
using comm::CollectiveDescriptor;
using comm::CommContext;
using comm::DeviceCalls;
using comm::Engine;
using comm::Extents;
using comm::kAgreementLane;
using comm::kMeanReduction;
using comm::kNodeLink;
using comm::kWholeUnion;
using comm::link_cost;
using comm::LinkCost;
using comm::Subject;
using comm::SumShape;
using comm::Task;
using comm::Traffic;

}  // namespace sparcl::collectives
