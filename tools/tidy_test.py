#!/usr/bin/env python3
"""Every rule of tidy.py: a small tree that is clean, and one change to it that is not."""
import pathlib
import subprocess
import tempfile
import unittest

import tidy

CLEAN = {
    "CMakeLists.txt": "# tessera_module(ghost)\ntessera_module(base LINK fmt::fmt)\n"
    "tessera_module(kv    DEPS base)\n"
    "tessera_module(store DEPS base kv LINK z)\n"
    "tessera_module(reuse DEPS kv)\ntessera_module(model DEPS base)\n",
    "src/base/error.h": "#include <string>\n",
    "src/kv/chunk.h": '#include "base/error.h"\n',
    "src/store/tiers/disk.cpp": '#include "kv/chunk.h"\n#include "store/tier.h"\n',
    "src/store/tiers/registry.cpp": '{"disk", make_disk},\n',
    "src/reuse/policies/epic.cpp": '#include "kv/chunk.h"\n',
    "src/reuse/registry.cpp": '{"epic", make_epic, "first tokens"},\n',
    "src/model/graph.cpp": '#include "ggml.h"\n',
    "apps/tessera/cmd_ask.cpp": '#include "store/tier.h"\n',
    "apps/tessera/main.cpp": "{add_ask},\n",
    "README.md": "[design](docs/a.md#top) [web](https://example.org/x) [here](#what)\n```\n[x](nowhere)\n```\n",
    "docs/a.md": "[back](../README.md)\n",
}


class TidyTest(unittest.TestCase):
    def problems(self, changes=None):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {**CLEAN, **(changes or {})}.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            subprocess.run(["git", "init", "-q", folder], check=True)
            return tidy.problems(root)

    def expect_one(self, changes, words):
        found = self.problems(changes)
        self.assertEqual(len(found), 1, found)
        self.assertIn(words, found[0])

    def test_clean_tree_has_no_problem(self):
        self.assertEqual(self.problems(), [])

    def test_include_against_the_layers(self):
        self.expect_one({"src/base/error.h": '#include "kv/chunk.h"\n'}, "base must not include kv/chunk.h")

    def test_dependencies_are_not_transitive(self):
        self.expect_one({"src/reuse/registry.cpp": '#include "base/error.h"\nmake_epic\n'}, "reuse must not include base")

    def test_module_that_is_not_declared(self):
        self.expect_one({"src/eval/run.h": "\n"}, "src/eval: no tessera_module")

    def test_dependency_declared_later(self):
        text = CLEAN["CMakeLists.txt"].replace("tessera_module(base ", "tessera_module(base DEPS kv ")
        self.expect_one({"CMakeLists.txt": text}, "base depends on kv, which is not declared before it")

    def test_ggml_outside_the_model(self):
        self.expect_one({"src/store/x.h": "#include <ggml-cpu.h>\n"}, "ggml-cpu.h may be included only in src/model/")

    def test_llama_in_the_store(self):
        self.expect_one({"src/store/x.h": '#include "llama.h"\n'}, "llama.h may be included only in")

    def test_file_length(self):
        self.assertEqual(self.problems({"src/kv/long.h": "\n" * 600}), [])
        self.expect_one({"src/kv/long.h": "\n" * 601}, "601 lines")

    def test_plugins_without_a_row(self):
        self.expect_one({"src/store/tiers/redis.cpp": "\n"}, "no row for make_redis")
        self.expect_one({"src/reuse/registry.cpp": "// make_epic\n"}, "no row for make_epic")
        self.expect_one({"apps/tessera/cmd_serve.cpp": "\n"}, "no row for make_serve or add_serve")

    def test_marker_without_an_issue(self):
        self.assertEqual(self.problems({"src/kv/a.h": "// TODO(#3): later\n"}), [])
        self.expect_one({"src/kv/a.h": "// TODO: later\n"}, "src/kv/a.h:1: a marker needs")

    def test_path_of_one_machine(self):
        # Not the home of whoever runs this: that may lie where paths are common to all machines. In two parts, since
        # this file is looked at too.
        home = "/" + "home/someone"
        self.expect_one({"docs/b.md": f"see\n`{home}/notes/x`\n"}, "docs/b.md:2: path of one machine")
        self.assertEqual(self.problems({"docs/b.md": "`/usr/share/x` `/v1/models` `~/.cache/x`\n"}), [])

    def test_large_file(self):
        self.expect_one({"data/blob.bin": "x" * (tidy.MAX_BYTES + 1)}, "data/blob.bin: larger than 2 MiB")

    def test_link_that_leads_nowhere(self):
        self.expect_one({"docs/a.md": "[gone](gone.md)\n"}, "docs/a.md: link to gone.md leads nowhere")


if __name__ == "__main__":
    unittest.main()
