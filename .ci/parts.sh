# The parts of .ci/run that are more than one command. Sourced by it, from the root of the repository.

tidy() {
  python3 tools/tidy.py
  python3 tools/tidy_test.py
  ./dev fmt --check
}

# Unit, contract and tiny-model tests under address and undefined. Real models are left to ./dev soak.
sanitizers() {
  ./dev build asan
  ./dev run-tests asan -LE '^real$'
}

# At most 20 of the files that changed: against what main was, or everything in the first commit.
lint() {
  local base changed=() file candidate
  base=$(git merge-base HEAD origin/main 2>/dev/null || true)
  if [[ -z $base || $base == "$(git rev-parse HEAD)" ]]; then
    base=$(git rev-parse -q --verify HEAD~1 || git hash-object -t tree /dev/null)
  fi
  while read -r file; do
    # A header is linted through the source file beside it.
    candidate=${file%.h}
    candidate=${candidate%.cpp}.cpp
    [[ ! -f $candidate ]] || changed+=("$candidate")
  done < <(git diff --name-only "$base" -- 'src/*.cpp' 'src/*.h' 'apps/*.cpp' 'apps/*.h')
  [[ ${#changed[@]} -gt 0 ]] || { echo "no source file changed"; return; }
  mapfile -t changed < <(printf '%s\n' "${changed[@]}" | sort -u | head -n 20)
  printf '%s\n' "${changed[@]}"
  ./dev lint "${changed[@]}"
}
