#pragma once
// What the tests of the readers of questions share.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "eval/sample.h"

namespace tessera::sample_testing {

inline std::vector<std::string> texts(const Sample& sample) {
  std::vector<std::string> out;
  out.reserve(sample.passages.size());
  for (const PassageText& p : sample.passages) out.push_back(p.text);
  return out;
}

// What `read` says of bad input; empty where it finds no fault.
inline std::string refusal_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidRequest);
    return error.what();
  }
  return "";
}

}  // namespace tessera::sample_testing
