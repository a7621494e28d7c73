#pragma once
// Asks the server of tests/support/s3_stub.hpp for faults, and what it was asked.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>

#include "src/net/http/http_client.hpp"
#include "tests/support/s3_stub.hpp"

namespace sparcl::test {

// PUT: a list of faults as JSON. GET: the requests since then, as JSON.
inline std::string control_stub(const std::string& method, const std::string& text) {
  static const std::unique_ptr<net::HttpClient> client = std::move(*net::HttpClient::open({}));
  net::HttpRequest request;
  request.method = method;
  request.url = S3Stub::get().endpoint() + "/_control";
  request.body = {std::as_bytes(std::span(text))};
  request.max_bytes = 16 << 20;
  request.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  const Result<net::HttpAnswer> answer = client->perform(request);
  EXPECT_TRUE(answer.ok()) << answer.status().message();
  if (!answer.ok()) return "[]";
  return {reinterpret_cast<const char*>(answer->body.data()), answer->body.size()};
}

}  // namespace sparcl::test
