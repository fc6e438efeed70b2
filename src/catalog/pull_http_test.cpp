// Pulls over HTTP against a local server that is told how to misbehave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <thread>

#include "../../tests/support/http_server.h"
#include "../../tests/support/pull_fixture.h"
#include "base/clock.h"
#include "catalog/file_lock.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using test_support::HttpAnswer;
using test_support::HttpRequest;
using test_support::HttpServer;
using test_support::serve_file;
using testing::AllOf;
using testing::HasSubstr;

class PullHttp : public test_support::PullTest {
 protected:
  void TearDown() override {
    ::unsetenv("HF_ENDPOINT");
    ::unsetenv("HF_TOKEN");
    PullTest::TearDown();
  }
  CatalogEntry entry_at(const HttpServer& server) const {
    return entry_for(file_, {url_source(server.url("/tiny.gguf"))});
  }
  // A pull that must bring the right file and leave nothing else behind.
  void expect_pulled(const CatalogEntry& entry) {
    EXPECT_EQ(pull(entry), model());
    EXPECT_TRUE(text_of(model()) == file_);
    EXPECT_FALSE(fs::exists(part()) || fs::exists(sidecar_path(model())));
  }

  const std::string file_ = random_bytes(300'000);
};

TEST_F(PullHttp, BringsTheFileAndReportsProgressUpToItsEnd) {
  HttpServer server([&](const HttpRequest& request, size_t) { return serve_file(request, file_); });
  std::vector<uint64_t> done;
  progress_ = [&](const PullProgress& progress) {
    EXPECT_EQ(progress.total_bytes, file_.size());
    EXPECT_EQ(progress.source, server.url("/tiny.gguf"));
    done.push_back(progress.done_bytes);
  };
  const Stopwatch watch;

  expect_pulled(entry_at(server));

  EXPECT_LE(static_cast<double>(done.size()), 3 + watch.ms() / 50);
  ASSERT_FALSE(done.empty());
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_EQ(done.back(), file_.size());
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST_F(PullHttp, RightFileIsNotAskedForAgainAndAWrongOneIs) {
  HttpServer server([&](const HttpRequest& request, size_t) { return serve_file(request, file_); });
  const CatalogEntry entry = entry_at(server);
  expect_pulled(entry);

  expect_pulled(entry);
  EXPECT_EQ(server.requests().size(), 1u);

  write_text(model(), "of another size");
  expect_pulled(entry);
  EXPECT_EQ(server.requests().size(), 2u);

  write_text(model(), random_bytes(file_.size(), 2));
  expect_pulled(entry);
  EXPECT_EQ(server.requests().size(), 3u);
}

TEST_F(PullHttp, FollowsFiveRedirectsAndNotSix) {
  HttpServer server([&](const HttpRequest& request, size_t) {
    const int left = request.path[1] - '0';
    if (left == 0) return serve_file(request, file_);
    return HttpAnswer{.status = 302, .headers = {{"Location", "/" + std::to_string(left - 1)}}};
  });

  expect_pulled(entry_for(file_, {url_source(server.url("/5"))}));
  EXPECT_EQ(server.requests().size(), 6u);

  fs::remove(model());
  EXPECT_THAT(pull_error(entry_for(file_, {url_source(server.url("/6"))})), HasSubstr("redirects"));
}

TEST_F(PullHttp, RedirectLoopAndRedirectToAFileEnd) {
  HttpServer server([&](const HttpRequest& request, size_t) {
    const std::string to = request.path == "/loop" ? "/loop" : "file:///etc/hostname";
    return HttpAnswer{.status = 302, .headers = {{"Location", to}}};
  });

  EXPECT_THAT(pull_error(entry_for(file_, {url_source(server.url("/loop"))})),
              HasSubstr("redirects"));
  EXPECT_EQ(server.requests().size(), 6u);
  EXPECT_THAT(pull_error(entry_for(file_, {url_source(server.url("/file"))})),
              HasSubstr("rotocol"));
}

TEST_F(PullHttp, GoesOnFromThePartByRange) {
  HttpServer server([&](const HttpRequest& request, size_t) { return serve_file(request, file_); });
  write_text(part(), file_.substr(0, 100'000));

  expect_pulled(entry_at(server));

  ASSERT_EQ(server.requests().size(), 1u);
  EXPECT_EQ(server.requests()[0].range_start(), 100'000u);
}

TEST_F(PullHttp, StartsOverWhenTheServerIgnoresTheRange) {
  HttpServer server([&](const HttpRequest&, size_t) { return HttpAnswer{.body = file_}; });
  write_text(part(), file_.substr(0, 100'000));

  expect_pulled(entry_at(server));

  EXPECT_EQ(server.requests().size(), 1u);
}

TEST_F(PullHttp, RefusesAnotherRangeThanAsked) {
  HttpServer server([&](const HttpRequest&, size_t) {
    return HttpAnswer{
        .status = 206, .headers = {{"Content-Range", "bytes 0-299999/300000"}}, .body = file_};
  });
  write_text(part(), file_.substr(0, 100'000));

  EXPECT_THAT(pull_error(entry_at(server)), HasSubstr("another range"));
  EXPECT_TRUE(text_of(part()) == file_.substr(0, 100'000));
}

TEST_F(PullHttp, GoesOnAfterACutConnection) {
  HttpServer server([&](const HttpRequest& request, size_t n) {
    HttpAnswer answer = serve_file(request, file_);
    if (n < 3) answer.cut_after = 50'000;
    return answer;
  });

  expect_pulled(entry_at(server));

  ASSERT_EQ(server.requests().size(), 4u);
  EXPECT_EQ(server.requests()[3].range_start(), 150'000u);
}

TEST_F(PullHttp, GivesUpAfterFiveRetriesAndKeepsThePart) {
  HttpServer server([&](const HttpRequest& request, size_t) {
    HttpAnswer answer = serve_file(request, file_);
    answer.cut_after = 10'000;
    return answer;
  });

  const std::string message = pull_error(entry_at(server));

  EXPECT_THAT(message, AllOf(HasSubstr("after 5 retries"), HasSubstr(server.url("/tiny.gguf"))));
  EXPECT_EQ(server.requests().size(), 6u);
  EXPECT_TRUE(text_of(part()) == file_.substr(0, 60'000));
}

TEST_F(PullHttp, DoesNotRetryAConnectionThatBroughtNothing) {
  HttpServer server([&](const HttpRequest& request, size_t) {
    HttpAnswer answer = serve_file(request, file_);
    answer.cut_after = 0;
    return answer;
  });

  pull_error(entry_at(server));

  EXPECT_EQ(server.requests().size(), 1u);
}

TEST_F(PullHttp, WrongBytesAreDeletedAndTheNextSourceIsTried) {
  const std::string other = random_bytes(file_.size(), 2);
  HttpServer server([&](const HttpRequest& request, size_t) {
    return serve_file(request, request.path == "/bad" ? other : file_);
  });
  const ModelSource bad = url_source(server.url("/bad"));

  const std::string message = pull_error(entry_for(file_, {bad}));
  EXPECT_THAT(message, AllOf(HasSubstr(server.url("/bad")), HasSubstr(sha256_of(other))));
  EXPECT_EQ(fs::file_size(part()), 0u);
  EXPECT_FALSE(fs::exists(model()));

  expect_pulled(entry_for(file_, {bad, url_source(server.url("/good"))}));
}

TEST_F(PullHttp, EverySourceThatFailedIsNamedWithItsReason) {
  HttpServer server([&](const HttpRequest& request, size_t) {
    if (request.path == "/gone") return HttpAnswer{.status = 404, .body = file_};
    return HttpAnswer{.status = 503};
  });

  const std::string message =
      pull_error(entry_for(file_, {url_source(server.url("/gone")), url_source(server.url("/busy")),
                                   url_source("http://127.0.0.1:1/closed")}));

  EXPECT_THAT(message, HasSubstr("/gone: HTTP status 404"));
  EXPECT_THAT(message, HasSubstr("/busy: HTTP status 503"));
  EXPECT_THAT(message, HasSubstr("http://127.0.0.1:1/closed: "));
}

TEST_F(PullHttp, AnotherSizeIsRefusedBeforeTheFirstByte) {
  for (const size_t bytes : {file_.size() + 1, file_.size() - 1}) {
    HttpServer server(
        [&](const HttpRequest&, size_t) { return HttpAnswer{.body = random_bytes(bytes)}; });

    EXPECT_THAT(pull_error(entry_at(server)), HasSubstr(std::to_string(bytes) + " bytes"));
    EXPECT_EQ(fs::file_size(part()), 0u);
  }
}

TEST_F(PullHttp, EndlessBodyWithoutALengthIsCutAtTheCataloguesSize) {
  const std::string endless = random_bytes(2 * file_.size());
  HttpServer server([&](const HttpRequest&, size_t) {
    return HttpAnswer{.headers = {{"Transfer-Encoding", "identity"}}, .body = endless};
  });

  EXPECT_THAT(pull_error(entry_at(server)), HasSubstr("sends more than"));
  EXPECT_LE(fs::file_size(part()), file_.size());
}

TEST_F(PullHttp, TrickleIsGivenUp) {
  options_.low_speed_bytes_per_s = 100'000;
  options_.max_retries = 1;
  // The window ends once bytes have come, however long that took: a transfer without any would not
  // be tried again.
  progress_ = [&](const PullProgress& progress) {
    if (progress.done_bytes > 0) options_.low_speed_window = std::chrono::milliseconds(0);
  };
  HttpServer server([&](const HttpRequest& request, size_t) {
    HttpAnswer answer = serve_file(request, file_);
    answer.is_trickle = true;
    return answer;
  });

  EXPECT_THAT(pull_error(entry_at(server)),
              AllOf(HasSubstr("slower than 100000 bytes a second"), HasSubstr("after 1 retries")));
}

TEST_F(PullHttp, StopEndsThePullBeforeTheFileIsThereAndKeepsThePart) {
  HttpServer server([&](const HttpRequest& request, size_t) {
    HttpAnswer answer = serve_file(request, file_);
    answer.is_trickle = true;
    return answer;
  });
  std::stop_source stop;
  progress_ = [&](const PullProgress& progress) {
    if (progress.done_bytes > 0) stop.request_stop();
  };

  pull_error(entry_at(server), ErrorCode::kCancelled, stop.get_token());

  const std::string kept = text_of(part());
  EXPECT_FALSE(kept.empty());
  EXPECT_LT(kept.size(), file_.size());
  EXPECT_TRUE(file_.starts_with(kept));
}

TEST_F(PullHttp, PartWithForeignBytesIsRecoveredFrom) {
  HttpServer server([&](const HttpRequest& request, size_t) { return serve_file(request, file_); });
  for (const size_t bytes : {size_t{100'000}, file_.size(), 2 * file_.size()}) {
    write_text(part(), random_bytes(bytes, 2));
    fs::remove(model());

    expect_pulled(entry_at(server));
  }
}

TEST_F(PullHttp, WholePartOfAKilledPullNeedsNoRequest) {
  HttpServer server([&](const HttpRequest& request, size_t) { return serve_file(request, file_); });
  write_text(part(), file_);

  expect_pulled(entry_at(server));

  EXPECT_TRUE(server.requests().empty());
}

TEST_F(PullHttp, TwoPullsOfOneModelFetchItOnce) {
  HttpServer server([&](const HttpRequest& request, size_t) { return serve_file(request, file_); });
  const CatalogEntry entry = entry_at(server);
  {
    const std::jthread other([&] { pull(entry); });
    pull(entry);
  }

  EXPECT_TRUE(text_of(model()) == file_);
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST_F(PullHttp, StopEndsTheWaitForAnotherPull) {
  HttpServer server([&](const HttpRequest& request, size_t) { return serve_file(request, file_); });
  fs::create_directories(models());
  const auto other = FileLock::try_acquire(lock_path(model()));
  ASSERT_TRUE(other.has_value());
  EXPECT_FALSE(FileLock::try_acquire(lock_path(model())).has_value());
  std::stop_source stop;
  stop.request_stop();

  pull_error(entry_at(server), ErrorCode::kCancelled, stop.get_token());

  EXPECT_TRUE(server.requests().empty());
}

TEST_F(PullHttp, HubTokenGoesToTheHubAndNotToAnotherHost) {
  HttpServer server([&](const HttpRequest& request, size_t) {
    if (request.path == "/data") return serve_file(request, file_);
    return HttpAnswer{.status = 302, .headers = {{"Location", server.url("/data", "localhost")}}};
  });
  ::setenv("HF_ENDPOINT", server.url("/").c_str(), 1);
  ::setenv("HF_TOKEN", "secret", 1);
  ModelSource hub;
  hub.kind = ModelSource::Kind::kHuggingFace;
  hub.repository = "owner/name";
  hub.file = "tiny.gguf";

  expect_pulled(entry_for(file_, {hub}));

  ASSERT_EQ(server.requests().size(), 2u);
  const HttpRequest first = server.requests()[0];
  EXPECT_EQ(first.path, "/owner/name/resolve/main/tiny.gguf");
  EXPECT_EQ(first.headers.at("authorization"), "Bearer secret");
  EXPECT_EQ(server.requests()[1].headers.count("authorization"), 0u);
}

TEST_F(PullHttp, TokenIsNotSentToAPlainAddress) {
  HttpServer server([&](const HttpRequest& request, size_t) { return serve_file(request, file_); });
  ::setenv("HF_TOKEN", "secret", 1);

  expect_pulled(entry_at(server));

  EXPECT_EQ(server.requests()[0].headers.count("authorization"), 0u);
}

TEST_F(PullHttp, TooSmallADiskIsRefusedBeforeTheFirstRequest) {
  HttpServer server([&](const HttpRequest& request, size_t) { return serve_file(request, file_); });
  CatalogEntry entry = entry_at(server);
  entry.bytes = uint64_t{1} << 60;

  EXPECT_THAT(pull_error(entry),
              AllOf(HasSubstr(std::to_string(entry.bytes) + " more bytes"), HasSubstr("are free")));
  EXPECT_TRUE(server.requests().empty());
}

// In a child process, since the limit cannot be taken back.
TEST_F(PullHttp, FullDiskSaysWhatIsMissingAndKeepsThePart) {
  constexpr rlim_t limit_bytes = 200'000;
  HttpServer server([&](const HttpRequest& request, size_t) { return serve_file(request, file_); });
  const CatalogEntry entry = entry_at(server);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{limit_bytes, limit_bytes};
    ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string message = pull_error(entry);
    const bool is_right = message.find("100000 more bytes") != std::string::npos &&
                          message.find("are free") != std::string::npos;
    ::_exit(is_right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);

  EXPECT_EQ(status, 0);
  EXPECT_TRUE(text_of(part()) == file_.substr(0, limit_bytes));
  EXPECT_EQ(server.requests().size(), 1u);
  expect_pulled(entry);
  EXPECT_EQ(server.requests()[1].range_start(), limit_bytes);
}

}  // namespace
}  // namespace tessera
