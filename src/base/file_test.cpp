#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/error.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  void TearDown() override { ::umask(022); }
  bool write(const fs::path& path, std::string_view text) {
    const std::span<const std::byte> piece = std::as_bytes(std::span(text));
    return write_file_atomic(path, {&piece, 1}, error_);
  }
  // For several threads at a time: sweeping must not take another writer's file away.
  bool write_and_sweep(char letter) const {
    const std::string text(5000, letter);
    const std::span<const std::byte> piece = std::as_bytes(std::span(text));
    std::string error;
    const bool is_written = write_file_atomic(dir_ / "f", {&piece, 1}, error);
    sweep_temp_files(dir_);
    return is_written;
  }
  size_t n_entries() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(dir_), fs::directory_iterator()));
  }
  static std::string text_of(const fs::path& path) {
    const auto bytes = read_file(path);
    if (!bytes) return "<none>";
    return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
  }
  static mode_t mode_of(const fs::path& path) {
    struct stat status = {};
    return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 0777 : 0;
  }

  ScratchFolder scratch_{testing::TempDir()};
  fs::path dir_ = scratch_.path();
  std::string error_;
};

TEST_F(FileTest, WrittenPiecesAreReadBackAsOneFile) {
  const std::string_view first = "one ";
  const std::string_view second = "two";
  const std::span<const std::byte> pieces[] = {
      std::as_bytes(std::span(first)), {}, std::as_bytes(std::span(second))};

  ASSERT_TRUE(write_file_atomic(dir_ / "f", pieces, error_)) << error_;

  EXPECT_EQ(text_of(dir_ / "f"), "one two");
  EXPECT_EQ(n_entries(), 1U);
}

TEST_F(FileTest, FileHasTheTimeThatItIsGivenAndElseTheHour) {
  struct stat status = {};
  ASSERT_TRUE(write_file_atomic(dir_ / "f", {}, error_, {.tv_sec = 1000, .tv_nsec = 0})) << error_;
  ASSERT_EQ(::stat((dir_ / "f").c_str(), &status), 0);
  EXPECT_EQ(status.st_mtim.tv_sec, 1000);
  EXPECT_NEAR(static_cast<double>(status.st_atim.tv_sec), static_cast<double>(::time(nullptr)), 60);

  ASSERT_TRUE(write_file_atomic(dir_ / "f", {}, error_)) << error_;
  ASSERT_EQ(::stat((dir_ / "f").c_str(), &status), 0);
  EXPECT_NEAR(static_cast<double>(status.st_mtim.tv_sec), static_cast<double>(::time(nullptr)), 60);
}

TEST_F(FileTest, WriteReplacesAndAReaderOfTheOldFileKeepsIt) {
  ASSERT_TRUE(write(dir_ / "f", "old"));
  std::ifstream reader(dir_ / "f");

  ASSERT_TRUE(write(dir_ / "f", "newer"));

  std::string seen;
  reader >> seen;
  EXPECT_EQ(seen, "old");
  EXPECT_EQ(text_of(dir_ / "f"), "newer");
}

TEST_F(FileTest, ModeIsPrivateUnderAnyUmask) {
  for (const mode_t mask : {mode_t{0}, mode_t{022}, mode_t{0777}}) {
    ::umask(mask);
    const fs::path sub = dir_ / ("umask" + std::to_string(mask)) / "deep";
    make_private_dir(sub);
    ASSERT_TRUE(write(sub / "f", "x")) << error_;

    EXPECT_EQ(mode_of(sub / "f"), mode_t{0600});
    EXPECT_EQ(mode_of(sub), mode_t{0700});
    EXPECT_EQ(mode_of(sub.parent_path()), mode_t{0700});
  }
}

TEST_F(FileTest, MissingFolderIsRefusedWithItsName) {
  EXPECT_FALSE(write(dir_ / "no" / "f", "x"));
  EXPECT_NE(error_.find((dir_ / "no").string()), std::string::npos);
}

TEST_F(FileTest, FolderInTheWayIsRefusedAndLeavesNothing) {
  fs::create_directories(dir_ / "f" / "full");

  EXPECT_FALSE(write(dir_ / "f", "x"));

  EXPECT_EQ(n_entries(), 1U);
}

// The limit on file size stands in for a full disk, which needs no privileges. It holds for a
// process, hence the fork.
TEST_F(FileTest, FullDiskLeavesTheOldFileAndNoTemporary) {
  ASSERT_TRUE(write(dir_ / "f", "old"));
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {10000, 10000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::_exit(write(dir_ / "f", std::string(20000, 'x')) || error_.empty() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);

  EXPECT_EQ(status, 0);
  EXPECT_EQ(text_of(dir_ / "f"), "old");
  EXPECT_EQ(n_entries(), 1U);
  EXPECT_TRUE(write(dir_ / "f", std::string(20000, 'x')));  // the same write with room for it
}

TEST_F(FileTest, WritersOfOneNameLeaveOneWholeFile) {
  std::vector<std::jthread> writers;
  writers.reserve(4);
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([this, i] {
      for (int n = 0; n < 5; ++n) EXPECT_TRUE(write_and_sweep(static_cast<char>('a' + i)));
    });
  }
  writers.clear();

  const std::string text = text_of(dir_ / "f");
  ASSERT_EQ(text.size(), 5000U);
  EXPECT_EQ(text.find_first_not_of(text[0]), std::string::npos);
  EXPECT_EQ(n_entries(), 1U);
}

TEST_F(FileTest, SweepTakesLeftoversAndNothingElse) {
  std::ofstream(dir_ / ".f.999999.0.tmp") << "leftover";
  std::ofstream(dir_ / "f.tmp") << "the user's";
  std::ofstream(dir_ / "f") << "kept";
  fs::create_directory(dir_ / ".folder.tmp");
  std::ofstream(dir_ / ".g.1.0.tmp") << "being written";
  const FileDescriptor writer(::open((dir_ / ".g.1.0.tmp").c_str(), O_WRONLY));
  ASSERT_EQ(::flock(writer.get(), LOCK_EX), 0);

  EXPECT_EQ(sweep_temp_files(dir_), 1U);

  EXPECT_FALSE(fs::exists(dir_ / ".f.999999.0.tmp"));
  EXPECT_EQ(n_entries(), 4U);
  EXPECT_EQ(sweep_temp_files(dir_ / "missing"), 0U);
}

TEST_F(FileTest, ReadGivesNothingForMissingFilesAndFoldersButAnEmptyFileIsEmpty) {
  std::ofstream(dir_ / "empty").flush();

  EXPECT_EQ(read_file(dir_ / "missing"), std::nullopt);
  EXPECT_EQ(read_file(dir_), std::nullopt);
  EXPECT_EQ(read_file(dir_ / "empty"), std::vector<std::byte>());
}

TEST_F(FileTest, ReadGivesLargeFilesAndFilesWithoutASizeWhole) {
  const std::string text(200000, 'x');
  ASSERT_TRUE(write(dir_ / "large", text));

  EXPECT_EQ(text_of(dir_ / "large"), text);
  EXPECT_NE(text_of("/proc/self/status").find("VmRSS"),
            std::string::npos);  // its size is said to be 0
}

TEST_F(FileTest, PrivateDirIsMadeOnceAndFilesInTheWayAreNamed) {
  make_private_dir(dir_ / "a" / "b" / "");
  make_private_dir(dir_ / "a" / "b");
  EXPECT_TRUE(fs::is_directory(dir_ / "a" / "b"));
  std::ofstream(dir_ / "file") << "x";

  try {
    make_private_dir(dir_ / "file" / "sub");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_NE(std::string(error.what()).find("file"), std::string::npos);
  }
}

TEST_F(FileTest, ScratchFoldersAreApartAndGoWithWhatIsInThem) {
  {
    const ScratchFolder one(dir_);
    const ScratchFolder other(dir_);
    fs::create_directory(one.path() / "deep");
    ASSERT_TRUE(write(one.path() / "deep" / "f", "x")) << error_;

    EXPECT_NE(one.path(), other.path());
    EXPECT_EQ(one.path().parent_path(), dir_);
    EXPECT_EQ(mode_of(one.path()), mode_t{0700});
    EXPECT_EQ(n_entries(), 2U);
  }
  EXPECT_EQ(n_entries(), 0U);

  try {
    const ScratchFolder nowhere(dir_ / "missing");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_NE(std::string(error.what()).find("missing"), std::string::npos);
  }
}

class DirsTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kNames) {
      const char* value = std::getenv(name);
      saved_.emplace_back(value == nullptr ? std::nullopt : std::optional<std::string>(value));
      ::unsetenv(name);
    }
  }
  void TearDown() override {
    for (size_t i = 0; i < saved_.size(); ++i) {
      const std::optional<std::string>& value = saved_[i];
      if (value) ::setenv(kNames[i], value->c_str(), 1);
      if (!value) ::unsetenv(kNames[i]);
    }
  }
  static constexpr const char* kNames[] = {"HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME",
                                           "TESSERA_CACHE"};
  std::vector<std::optional<std::string>> saved_;
};

TEST_F(DirsTest, FollowTheXdgConvention) {
  ::setenv("HOME", "/h", 1);
  EXPECT_EQ(cache_dir(), "/h/.cache/tessera");
  EXPECT_EQ(data_dir(), "/h/.local/share/tessera");

  ::setenv("XDG_CACHE_HOME", "/c", 1);
  ::setenv("XDG_DATA_HOME", "relative", 1);
  EXPECT_EQ(cache_dir(), "/c/tessera");
  EXPECT_EQ(data_dir(), "/h/.local/share/tessera");

  ::setenv("XDG_DATA_HOME", "", 1);
  EXPECT_EQ(data_dir(), "/h/.local/share/tessera");

  ::setenv("TESSERA_CACHE", "", 1);
  EXPECT_EQ(cache_dir(), "/c/tessera");
}

TEST_F(DirsTest, OwnCacheVariableComesFirstAndMayBeRelative) {
  ::setenv("XDG_CACHE_HOME", "/c", 1);

  ::setenv("TESSERA_CACHE", "/t", 1);
  EXPECT_EQ(cache_dir(), "/t");

  ::setenv("TESSERA_CACHE", "here/t", 1);
  EXPECT_EQ(cache_dir(), fs::current_path() / "here/t");
}

TEST_F(DirsTest, NoHomeIsAnErrorUnlessAnotherVariableSaysWhere) {
  EXPECT_THROW(cache_dir(), Error);
  ::setenv("XDG_CACHE_HOME", "/c", 1);
  EXPECT_EQ(cache_dir(), "/c/tessera");
}

}  // namespace
}  // namespace tessera
