#!/usr/bin/env python3
"""Checks that code review should not have to. Prints one line per problem and exits 1 if there is any.

Usage: tools/tidy.py [ROOT]
"""
import pathlib
import re
import subprocess
import sys

MAX_LINES = 600
MAX_BYTES = 2 * 1024 * 1024
CODE = {".h", ".cpp", ".py", ".cmake"}
CODE_FOLDERS = ("src/", "apps/", "tests/", "bench/", "tools/", "cmake/")
# Headers of third parties that only some folders may use (DESIGN.md section 3).
HEADER_HOMES = {
    r"ggml[\w-]*\.h": ("src/model/", "tests/"),
    r"gguf\.h": ("src/model/", "src/text/", "tests/"),  # a container's metadata, not tensors
    r"llama[\w-]*\.h": ("src/text/", "bench/", "tests/"),
}
# Folder of plug-ins, which of its files are plug-ins, and the registry that must name each of them.
PLUGINS = (
    ("src/reuse/policies/", r".*", ("src/reuse/policies/registry.cpp", "src/reuse/registry.cpp")),
    ("src/store/tiers/", r".*", ("src/store/tiers/registry.cpp",)),
    ("src/model/arch/", r".*", ("src/model/arch/registry.cpp",)),
    ("src/eval/tasks/", r".*", ("src/eval/registry.cpp",)),
    ("apps/tessera/", r"cmd_.*", tuple(f"apps/tessera/{name}.cpp" for name in ("main", "cmd_bench", "cmd_analyze"))),
)
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.M)
MARKER = re.compile(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))")
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
# Roots that every Linux machine has; a path below any other root is one machine's own.
COMMON_ROOTS = {"bin", "dev", "etc", "lib", "opt", "proc", "run", "srv", "sys", "tmp", "usr", "var"}


class Tree:
    """The files of the repository, and their text where they are text."""

    def __init__(self, root):
        self.root = root
        git = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listing = subprocess.run(git, capture_output=True, check=False)
        if listing.returncode == 0:
            names = listing.stdout.decode().split("\0")
        else:
            names = [str(path.relative_to(root)) for path in root.rglob("*")]
        self.names = sorted(name for name in set(names) if name and (root / name).is_file())
        self.text = {}
        for name in self.names:
            raw = (root / name).read_bytes()
            if len(raw) <= MAX_BYTES and b"\0" not in raw:
                self.text[name] = raw.decode(errors="replace")

    def code(self):
        """(name, text) of our own source files."""
        for name, text in self.text.items():
            if name.startswith(CODE_FOLDERS) and pathlib.PurePath(name).suffix in CODE:
                yield name, text


def modules(tree):
    """{module: its DEPS} in the order of CMakeLists.txt, the only place where layers are written down."""
    text = re.sub(r"#.*", "", tree.text.get("CMakeLists.txt", ""))
    found = {}
    for name, rest in re.findall(r"^\s*tessera_module\(\s*(\w+)([^)]*)\)", text, re.M):
        deps = re.search(r"\bDEPS\b(.*?)(?:\bLINK\b|$)", rest, re.S)
        found[name] = deps.group(1).split() if deps else []
    return found


def check_layers(tree):
    layers = modules(tree)
    seen = set()
    for module, deps in layers.items():
        for dep in deps:
            if dep not in seen:
                yield f"CMakeLists.txt: {module} depends on {dep}, which is not declared before it"
        seen.add(module)
    folders = {name.split("/")[1] for name in tree.names if name.startswith("src/") and name.count("/") > 1}
    for folder in sorted(folders - set(layers)):
        yield f"src/{folder}: no tessera_module({folder} ...) in CMakeLists.txt"
    for name, text in tree.code():
        module = name.split("/")[1]
        if not name.startswith("src/") or module not in layers:
            continue
        for header in INCLUDE.findall(text):
            other = header.split("/")[0]
            if other in folders and other != module and other not in layers[module]:
                yield f"{name}: {module} must not include {header}; its DEPS are {layers[module]}"


def check_headers(tree):
    for name, text in tree.code():
        for header in INCLUDE.findall(text):
            for pattern, homes in HEADER_HOMES.items():
                if re.fullmatch(pattern, pathlib.PurePath(header).name) and not name.startswith(homes):
                    yield f"{name}: {header} may be included only in {', '.join(homes)}"


def check_length(tree):
    for name, text in tree.code():
        n_lines = text.count("\n")
        if n_lines > MAX_LINES:
            yield f"{name}: {n_lines} lines, at most {MAX_LINES}; split it"


def check_plugins(tree):
    for folder, pattern, registries in PLUGINS:
        listed = "\n".join(tree.text.get(registry, "") for registry in registries)
        listed = re.sub(r"//.*", "", listed)
        for name in tree.names:
            path = pathlib.PurePath(name)
            is_plugin = path.suffix == ".cpp" and f"{path.parent}/" == folder and re.fullmatch(pattern, path.stem)
            if not is_plugin or name in registries or path.stem.endswith("_test"):
                continue
            stem = path.stem.removeprefix("cmd_")
            if not re.search(rf"\b(make_|add_)?{stem}\b", listed):
                yield f"{name}: no row for make_{stem} or add_{stem} in {' or '.join(registries)}"


def check_markers(tree):
    for name, text in tree.code():
        if name.startswith("tools/tidy"):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if MARKER.search(line):
                yield f"{name}:{number}: a marker needs the number of its issue: TODO(#12)"


def check_machine_paths(tree):
    """The checkout's own place and home folders: a file that names them works on one machine only."""
    # A root that is "/" itself, as HOME is in some containers, names no folder.
    own = {part for path in (pathlib.Path.home(), tree.root) for part in path.parts[1:2]} - COMMON_ROOTS - {"home"}
    roots = "|".join(sorted(re.escape(part) for part in own) + [r"home/\w+"])
    pattern = re.compile(rf"(?:^|[^\w./~}}-])/(?:{roots})/", re.M)
    for name, text in tree.text.items():
        for match in pattern.finditer(text):
            number = text.count("\n", 0, match.start() + 1) + 1
            yield f"{name}:{number}: path of one machine: {match.group().strip()}"


def check_sizes(tree):
    for name in tree.names:
        if (tree.root / name).stat().st_size > MAX_BYTES:
            yield f"{name}: larger than 2 MiB; models, blobs and data stay out of the repository"


def check_links(tree):
    for name, text in tree.text.items():
        if pathlib.PurePath(name).suffix != ".md":
            continue
        prose = re.sub(r"```.*?```", "", text, flags=re.S)
        for target in LINK.findall(prose):
            path = target.split("#")[0]
            if not path or re.match(r"[a-z]+:", path):
                continue
            if not (tree.root / name).parent.joinpath(path).exists():
                yield f"{name}: link to {target} leads nowhere"


CHECKS = (
    check_layers,
    check_headers,
    check_length,
    check_plugins,
    check_markers,
    check_machine_paths,
    check_sizes,
    check_links,
)


def problems(root):
    tree = Tree(pathlib.Path(root).resolve())
    return [problem for check in CHECKS for problem in check(tree)]


if __name__ == "__main__":
    default_root = pathlib.Path(__file__).resolve().parent.parent
    found = problems(sys.argv[1] if len(sys.argv) > 1 else default_root)
    print("\n".join(found) if found else "tidy: ok")
    sys.exit(bool(found))
